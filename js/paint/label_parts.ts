import type { Place } from "../scene/scene";
import { type Part, part } from "./parts";

/** A text on its ground. */
export function labelParts({ x, y, width, height, text }: Place & { text: string }): Part[] {
  return [
    part("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 3 }),
    part("text", { x, y: y + 3.5 }, text),
  ];
}

/** A tag that says "NaN" or "!". */
export function markPart(kind: "error" | "nan", x = 0): Part {
  const width = kind === "nan" ? 28 : 16;
  return part("g", { class: `gw-mark gw-mark-${kind}` }, [
    part("rect", { x: x - width / 2, y: -8, width, height: 16, rx: kind === "nan" ? 3 : 8 }),
    part("text", { x, y: 3.6 }, kind === "nan" ? "NaN" : "!"),
  ]);
}
