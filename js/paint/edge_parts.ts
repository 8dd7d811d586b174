import { arrowData, halfway, pathData, portalEnds, untilJump } from "../scene/curve";
import type { EdgeSign, PortalSign, SceneEdge, SceneLink } from "../scene/scene";
import { labelParts } from "./label_parts";
import { type Part, part } from "./parts";

export const NO_FLOW = "No gradient flows here";

/** The parts of an edge; `heading` is the gradients' direction. In a static graph the arrow points with the data. */
export function edgeParts(
  { curve, label, quiet, merged, isOnSome, portal }: SceneEdge,
  heading: readonly [number, number],
  isStatic = false,
): Part[] {
  const isHalf = portal?.isKnown === true;
  const parts = [
    part("path", { class: "gw-line", d: pathData(isHalf ? untilJump(curve) : curve) }),
  ];
  if (isOnSome) parts.unshift(part("path", { class: "gw-only-edge", d: pathData(curve) }));
  if (merged && merged.tensors > 1)
    parts.unshift(part("title", {}, `${merged.tensors} tensors go along this line`));
  if (quiet === undefined && !isTiny(curve) && (isStatic || !isHalf)) {
    const end = isStatic ? 0 : curve.length - 2;
    const tip = arrowData(curve[end], curve[end + 1], pointing(curve, isStatic, heading));
    parts.push(part("path", { class: "gw-arrow", d: tip }));
  }
  // Without requires_grad only the value flows, to its user.
  if (quiet === "constant" && !isTiny(curve)) {
    const tip = arrowData(curve[0], curve[1], pointing(curve, true, heading));
    parts.push(part("path", { class: "gw-value-head", d: tip }));
  }
  if (quiet === "cut") parts.push(scissorsPart(...halfway(curve)));
  if (portal !== undefined) parts.push(...portalParts(curve, portal));
  if (label) parts.push(part("g", { class: "gw-edge-label" }, labelParts(label)));
  for (const sign of merged?.signs ?? []) parts.push(signPart(sign));
  return parts;
}

/** The same sign at both ends of a line that is not drawn; once at a producer with several. */
function portalParts(curve: ArrayLike<number>, portal: PortalSign): Part[] {
  const { text, isKnown } = portal;
  const ends = portalEnds(curve).slice(0, isKnown ? 1 : 2);
  const there = /^\d+$/.test(text) ? `the other ${text}` : text;
  const says = `The tensor comes from ${there}, and its gradient goes there`;
  return ends.map(([x, y]) => portalSign(x, y, portal, [part("title", {}, says)]));
}

/** A portal's number or name, around a point. */
export function portalSign(
  x: number,
  y: number,
  { text, width }: PortalSign,
  also: readonly Part[] = [],
): Part {
  return part("g", { class: "gw-edge-portal" }, [
    ...also,
    part("rect", { x: x - width / 2, y: y - 9, width, height: 18, rx: 9 }),
    part("text", { x, y: y + 4.6 }, text),
  ]);
}

/** Arrowheads that end at a node's ring. */
export function headAtRing({ curve }: SceneEdge, heading: readonly [number, number]): Part {
  const way = pointing(curve, false, heading);
  const [x, y] = [curve[curve.length - 2] - way[0] * RING, curve[curve.length - 1] - way[1] * RING];
  return part("path", { class: "gw-ring-head", d: arrowData(x, y, way) });
}

/** From a node to the outside of its ring, px. */
const RING = 7.5;

/** Whether an arrowhead does not fit, as between bars of a long strip. */
function isTiny(curve: ArrayLike<number>): boolean {
  if (curve.length > 8) return false;
  return Math.hypot(curve[6] - curve[0], curve[7] - curve[1]) < 6;
}

/** The direction of an arrowhead at a curve's end or start: lines end along an axis. */
function pointing(
  curve: Float64Array,
  atStart: boolean,
  heading: readonly [number, number],
): readonly [number, number] {
  const end = curve.length;
  const [tip, before] = atStart ? [0, 2] : [end - 2, end - 4];
  const [dx, dy] = [curve[tip] - curve[before], curve[tip + 1] - curve[before + 1]];
  if (Math.abs(dx) > Math.abs(dy)) return [Math.sign(dx), 0];
  return dy === 0 ? heading : [0, Math.sign(dy)];
}

/** Three dots, as for what is left out: a number is where a long line goes on. */
export const FOLDED = "\u00b7\u00b7\u00b7";

/** An edge's number of tensors; or its folded plumbing, which a click opens. */
function signPart({ x, y, width, height, text, kind, isShy }: EdgeSign): Part {
  const isFolded = kind === "folded";
  const title = isFolded ? [part("title", {}, foldedTitle(text))] : [];
  return part("g", { class: `gw-edge-${kind}${isShy ? " is-shy" : ""}` }, [
    ...title,
    ...labelParts({ x, y, width, height, text: isFolded ? FOLDED : text }, height / 2),
  ]);
}

function foldedTitle(count: string): string {
  return count === "1"
    ? "1 operation that only hands the tensor on; click to show it"
    : `${count} operations that only hand the tensor on; click to show them`;
}

/** Scissors, with a tooltip. */
export function scissorsPart(x: number, y: number): Part {
  return part("g", { class: "gw-scissors", transform: `translate(${x},${y})` }, [
    part("title", {}, NO_FLOW),
    part("circle", { r: 9 }),
    part("path", { d: SCISSORS }),
  ]);
}

/** Two blades, open upwards, and the rings of their handles. */
const SCISSORS =
  "M-3.2,-5.8L2.1,2.2M3.2,-5.8L-2.1,2.2M-4.7,3.9a1.8,1.8 0 1 0 3.6,0a1.8,1.8 0 1 0 -3.6,0M1.1,3.9a1.8,1.8 0 1 0 3.6,0a1.8,1.8 0 1 0 -3.6,0";

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
