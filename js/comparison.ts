import type { CompareTraits } from "./wire";
import "./features/comparison";
import { channelOf, drawnBy } from "./channel";
import { createComparison } from "./compare/view";

/** `CompareWidget`: several graphs. A separate module, so that a single graph's widget does not carry it. */
export default {
  render: drawnBy<CompareTraits>((el, model) => {
    const channel = channelOf<CompareTraits>(model, el);
    let end = createComparison(el, channel);
    const off = channel.on("panes", () => {
      end();
      end = createComparison(el, channel);
    });
    return () => {
      off();
      end();
    };
  }),
};
