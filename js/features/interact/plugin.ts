import { Pins } from "../../interact/pins";
import { VIEW_PARTS } from "../../view/view_part";
import { differencePins, NumberInputs } from "./number_inputs";

/** Numbers to set and finite differences, at the nodes; not while a quiz asks for them. */
VIEW_PARTS.push(({ channel, drawing, graph }) => {
  const pins = new Pins(drawing);
  const numberInputs = new NumberInputs((...sent) => channel.send(...sent));
  return {
    traits: ["_number_inputs", "_differences", "_quiz"],
    update() {
      const shown = graph();
      const inputs = channel.get("_quiz") ? [] : (channel.get("_number_inputs") ?? []);
      if (!shown) return;
      pins.show([
        ...numberInputs.pins(inputs, shown),
        ...differencePins(channel.get("_differences") ?? []),
      ]);
    },
    moved: () => pins.place(),
  };
});
