import type { AnyModel } from "@anywidget/types";
import { channelOf, drawnBy, type Traits } from "./channel";
import { createView } from "./view";
import type { StartWorker } from "./worker/scene_maker";
import { serveInWorker } from "./worker/serve";
import { workersFrom } from "./worker/start";

/** The text of this very module is a trait in Jupyter; where it is not, the module has an address. */
function workersOf(model: AnyModel<Traits>): StartWorker {
  const text = (model as unknown as AnyModel<{ _esm: unknown }>).get("_esm");
  return workersFrom(text, "module", import.meta.url);
}

serveInWorker();

/** `GraphWidget`: one graph. */
export default {
  render: drawnBy<Traits>((el, model) => createView(el, channelOf(model, el), workersOf(model))),
};
