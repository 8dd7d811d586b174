import { serveInWorker } from "../worker/serve";
import { workersFrom } from "../worker/start";
import { start } from "./page";

if (!serveInWorker()) start(workersFrom(document.currentScript?.textContent, "classic"));
