import "../features";
import { serveInWorker } from "../worker/serve";
import { workersOfText } from "../worker/start";
import { start } from "./page";

if (!serveInWorker()) start(workersOfText(document.currentScript?.textContent));
