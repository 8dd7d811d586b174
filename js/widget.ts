import "./features";
import { channelOf, drawnBy, type Traits } from "./channel";
import { createView } from "./view";
import { serveInWorker } from "./worker/serve";
import { workersFrom } from "./worker/start";

serveInWorker();

/** `GraphWidget`: one graph. */
export default {
  render: drawnBy<Traits>((el, model) =>
    createView(el, channelOf(model, el), workersFrom(import.meta.url)),
  ),
};
