import { entry } from "../controls/legend";
import { part } from "../paint/parts";

/** The legend's entries for what not all graphs have. */
export function onlyEntries(): HTMLElement[] {
  const ground = { class: "gw-only-ground", x: -29, y: -9, width: 58, height: 18, rx: 5 };
  const tag = [
    part("rect", { x: -25, y: -6.5, width: 50, height: 13, rx: 3 }),
    part("text", { x: 0, y: 3.4 }, "only here"),
  ];
  const lacking = part("rect", {
    class: "gw-ghost",
    x: -12,
    y: -6.5,
    width: 24,
    height: 13,
    rx: 4,
  });
  return [
    entry(
      "what other graphs lack",
      60,
      [part("rect", ground), part("g", { class: "gw-only-tag" }, tag)],
      20,
    ),
    entry("what this graph lacks", 28, [lacking], 20),
  ];
}
