import type { AnyModel, RenderProps } from "@anywidget/types";
import { channelOf, type Traits } from "./channel";
import type { CompareTraits } from "./compare/traits";
import { createComparison } from "./compare/view";
import { element } from "./dom/element";
import { faultBox, messageOf } from "./dom/fault";
import { createView } from "./view";
import type { StartWorker } from "./worker/scene_maker";
import { serveInWorker } from "./worker/serve";
import { workersFrom } from "./worker/start";

type AnyTraits = Traits | CompareTraits;

/** What anywidget calls for each view of a model: of one graph, or of several that are compared. */
function render({ model, el, signal }: RenderProps<AnyTraits>): () => void {
  let end = () => {};
  try {
    end = isComparison(model)
      ? createComparison(el, channelOf<CompareTraits>(model, el))
      : createView(el, channelOf(model as AnyModel<Traits>, el), workersOf(model));
  } catch (error) {
    // anywidget shows errors only in the console.
    el.replaceChildren(element("div", { class: "gradwalk" }, faultBox(messageOf(error))));
  }
  signal?.addEventListener("abort", () => end(), { once: true });
  return () => end();
}

/** Only a comparison has panes. */
function isComparison(model: AnyModel<AnyTraits>): model is AnyModel<CompareTraits> {
  return (model as AnyModel<CompareTraits>).get("panes") !== undefined;
}

/** The text of this very module is a trait in Jupyter; where it is not, the module has an address. */
function workersOf(model: AnyModel<AnyTraits>): StartWorker {
  const text = (model as unknown as AnyModel<{ _esm: unknown }>).get("_esm");
  return workersFrom(text, "module", import.meta.url);
}

serveInWorker();

export default { render };
