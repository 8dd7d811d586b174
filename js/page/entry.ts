import "../features";
import { serveInWorker } from "../worker/serve";
import { workersOfPage } from "../worker/start";
import { followTheme, start } from "./page";

if (!serveInWorker()) {
  followTheme();
  start(workersOfPage(document.currentScript as HTMLScriptElement | null));
}
