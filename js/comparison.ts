import { channelOf, drawnBy } from "./channel";
import type { CompareTraits } from "./compare/traits";
import { createComparison } from "./compare/view";

/** `CompareWidget`: several graphs. A module of its own, so that a widget of one graph carries none of it. */
export default {
  render: drawnBy<CompareTraits>((el, model) =>
    createComparison(el, channelOf<CompareTraits>(model, el)),
  ),
};
