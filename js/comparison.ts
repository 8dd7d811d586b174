import { channelOf, drawnBy } from "./channel";
import type { CompareTraits } from "./compare/traits";
import { createComparison } from "./compare/view";

/** `CompareWidget`: several graphs. A separate module, so that a single graph's widget does not carry it. */
export default {
  render: drawnBy<CompareTraits>((el, model) =>
    createComparison(el, channelOf<CompareTraits>(model, el)),
  ),
};
