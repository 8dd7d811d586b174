import type { RenderProps } from "@anywidget/types";
import { channelOf, type Traits } from "./channel";
import { element } from "./ui/dom";
import { faultBox, messageOf } from "./ui/fault";
import { createView } from "./view";

/** What anywidget calls for each view of a model. */
function render({ model, el, signal }: RenderProps<Traits>): () => void {
  let end = () => {};
  try {
    end = createView(el, channelOf(model));
  } catch (error) {
    // anywidget shows errors only in the console.
    el.replaceChildren(element("div", { class: "gradwalk" }, faultBox(messageOf(error))));
  }
  signal?.addEventListener("abort", () => end(), { once: true });
  return () => end();
}

export default { render };
