import type { AnyModel, RenderProps } from "@anywidget/types";
import { channelOf, type Traits } from "./channel";
import type { CompareTraits } from "./compare/traits";
import { createComparison } from "./compare/view";
import { element } from "./ui/dom";
import { faultBox, messageOf } from "./ui/fault";
import { createView } from "./view";

type AnyTraits = Traits | CompareTraits;

/** What anywidget calls for each view of a model: of one graph, or of several that are compared. */
function render({ model, el, signal }: RenderProps<AnyTraits>): () => void {
  let end = () => {};
  try {
    end = isComparison(model)
      ? createComparison(el, channelOf<CompareTraits>(model))
      : createView(el, channelOf(model as AnyModel<Traits>));
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

export default { render };
