import type { SceneNode } from "../scene/scene";
import type { Marks, RankStrip } from "./marks";
import { type Part, part } from "./parts";

/** The largest width of bars and of the gaps between them, px. */
const WIDEST = 13;
const APART = 3;
/** The room above the highest bar, and below the base line for signs, px. */
const ABOVE = 4;
const BELOW = 8;
/** The least visible height of a nonzero gradient. */
const LEAST = 1.5;
/** Half the size of a cross, and of the sign below a bar, px. */
const CROSS = 3.2;
const SIGN = 2.6;

/** A node's strip once it is complete; null for none. */
export function stripAt({ index }: SceneNode, { ranks, progress }: Marks): RankStrip | null {
  const strip = ranks?.get(index);
  return strip && (progress?.cursor ?? 0) >= strip.from ? strip : null;
}

/**
 * A bar per rank: its height is the gradient, with a lighter part for the range of several ranks; a cross for NaN, a
 * ring for no gradient, a triangle below the shown rank, a diamond below an outlier.
 */
export function rankParts(node: SceneNode, marks: Marks): Part[] {
  const { ranks: cell } = node.shape;
  const strip = stripAt(node, marks);
  if (!cell || !strip) return [];
  const { bars } = strip;
  const pitch = Math.min((cell.width - 4) / bars.length, WIDEST + APART);
  const apart = Math.min(APART, pitch / 4);
  const wide = pitch - apart;
  const left = cell.x - (pitch * bars.length - apart) / 2;
  const foot = cell.y + cell.height / 2 - BELOW;
  const room = cell.height - ABOVE - BELOW;
  const line = `M${left - 2},${foot}H${left + pitch * bars.length - apart + 2}`;
  // A coloured box would hide the bars' colours.
  const ground = { x: cell.x - cell.width / 2, y: cell.y - cell.height / 2 + 1, rx: 3 };
  const size = { width: cell.width, height: cell.height - 3 };
  const parts: Part[] = node.group
    ? [part("rect", { class: "gw-rank-ground", ...ground, ...size })]
    : [];
  parts.push(part("path", { class: "gw-rank-line", d: line }));
  bars.forEach(({ least, most, isNotFinite, isWithout, isOdd, isShown }, i) => {
    const x = left + i * pitch;
    const middle = x + wide / 2;
    const kind = `${isOdd ? " is-odd" : ""}${isShown ? " is-shown" : ""}`;
    const bar = (name: string, from: number, to: number) => {
      const place = { x, y: foot - to, width: wide, height: to - from };
      parts.push(part("rect", { class: `${name}${kind}`, ...place }));
    };
    const height = (share: number) => (share > 0 ? Math.max(LEAST, share * room) : 0);
    const [low, high] = [height(least ?? 0), height(most ?? 0)];
    if (high > low) bar("gw-rank-range", low, high);
    if (low > 0) bar("gw-rank-bar", 0, low);
    if (isNotFinite) {
      const size = Math.min(CROSS, wide / 2);
      const y = foot - room / 2;
      const cross = `M${middle - size},${y - size}l${2 * size},${2 * size}m0,${-2 * size}l${-2 * size},${2 * size}`;
      parts.push(part("path", { class: "gw-rank-cross", d: cross }));
    }
    if (isWithout)
      parts.push(
        part("circle", {
          class: "gw-rank-none",
          cx: middle,
          cy: foot - 4,
          r: Math.min(2.4, wide / 2),
        }),
      );
    const y = foot + BELOW / 2;
    if (isShown) parts.push(sign("gw-rank-shown", middle, y, [0, -SIGN, SIGN, SIGN, -SIGN, SIGN]));
    else if (isOdd)
      parts.push(sign("gw-rank-odd", middle, y, [0, -SIGN, SIGN, 0, 0, SIGN, -SIGN, 0]));
  });
  return [part("g", { class: "gw-ranks" }, parts)];
}

function sign(name: string, x: number, y: number, corners: readonly number[]): Part {
  let d = "";
  for (let i = 0; i < corners.length; i += 2)
    d += `${i === 0 ? "M" : "L"}${x + corners[i]},${y + corners[i + 1]}`;
  return part("path", { class: name, d: `${d}Z` });
}
