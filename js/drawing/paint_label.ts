import { svgElement } from "../ui/dom";
import type { Place } from "./obstacles";

/** Draws a text on its ground into an empty group. */
export function paintLabel(
  this: SVGGElement,
  { x, y, width, height, text }: Place & { text: string },
): void {
  const label = svgElement("text", { x, y: y + 3.5 });
  label.textContent = text;
  this.append(
    svgElement("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 3 }),
    label,
  );
}
