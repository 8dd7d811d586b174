import { pathData } from "../scene/curve";
import type { SceneLink } from "../scene/scene";
import { labelParts } from "./label_parts";
import { type Part, part } from "./parts";

/** The length and width of a link's open head, px. */
const HEAD = { long: 7, wide: 4 };

/** A dashed line from a derivative to its function's node, with a tooltip. */
export function linkParts({ curve, label }: SceneLink): Part[] {
  const end = curve.length;
  const [x, y] = curve.slice(end - 2);
  const [dx, dy] = [x - curve[end - 4], y - curve[end - 3]];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  const wing = (side: number) =>
    `${x - HEAD.long * ux - side * HEAD.wide * uy},${y - HEAD.long * uy + side * HEAD.wide * ux}`;
  return [
    part("title", {}, "The derivative of this, as the program computed it. No gradient flows here"),
    part("path", { class: "gw-link-line", d: pathData(curve) }),
    part("path", { class: "gw-link-head", d: `M${wing(1)}L${x},${y}L${wing(-1)}` }),
    ...(label ? labelParts(label) : []),
  ];
}
