import "../features";
import { serveInWorker } from "../worker/serve";
import { workersOfPage } from "../worker/start";
import { start } from "./page";
import { followTheme } from "./theme";

if (!serveInWorker()) {
  followTheme();
  start(workersOfPage(document.currentScript as HTMLScriptElement | null));
}
