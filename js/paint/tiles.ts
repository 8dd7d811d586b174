import { AGAIN } from "../scene/checkpoints";
import type { SceneNode } from "../scene/scene";
import type { Marks, TileGrad } from "./marks";
import { type Part, part } from "./parts";

/** The gradient of a closed box' or block's parameters, once it is complete. */
export function tileAt({ index }: SceneNode, { tiles, progress }: Marks): TileGrad | null {
  const grad = tiles?.get(index);
  return grad && (progress?.cursor ?? 0) >= grad.from ? grad : null;
}

/** The class of a node's colour; "" for none. */
export function tintOf(node: SceneNode, marks: Marks): string {
  return marks.tint ? marks.tint.nodes[node.index] : (tileAt(node, marks)?.tint ?? "");
}

/** A closed box' number: the norm of its parameters' gradient, before that their size. */
export function tileParts({ shape: { tile } }: SceneNode, norm: string | null): Part[] {
  if (!tile || tile.number === null) return [];
  const name = norm === null ? "gw-text-cell" : "gw-text-digits";
  const at = { "text-anchor": "middle", x: 0, y: tile.number };
  return [part("text", { class: `gw-text ${name} gw-tile-number`, ...at }, norm ?? tile.rest)];
}

/** Between the filled part and the border that has the number, px. */
const NUMBER = 20;
/** Half of the outline stays visible. */
const INSET = 0.6;
/** The least visible height of a nonzero gradient, px. */
const LEAST = 3;

/** A bar's filled part with a line along its end, and its number unless seen from afar. */
export function barParts(node: SceneNode, marks: Marks, isMap = false): Part[] {
  const grad = tileAt(node, marks);
  if (!node.bar || !(grad || node.bar.isAgain)) return [];
  const { share = 0 } = grad ?? {};
  const text = isMap ? "" : grad?.text || (node.bar.isAgain ? AGAIN : "");
  const [w, h] = [node.shape.width - 2 * INSET, node.shape.height - 2 * INSET];
  const isUp = node.bar.grows === "up";
  const long = isUp ? h : w;
  const { above } = node.bar;
  const room = long - (text === "" || above ? 0 : isUp ? NUMBER : 2.4 * NUMBER);
  const filled = share > 0 ? Math.max(LEAST, share * room) : 0;
  const place = isUp
    ? { x: -w / 2, y: h / 2 - filled, width: w, height: filled }
    : { x: -w / 2, y: -h / 2, width: filled, height: h };
  const rx = Math.min(4, w / 4, h / 4, filled / 2);
  const tint = tintOf(node, marks) || "is-plain";
  const fill = part("rect", { class: `gw-strip-fill ${tint}`, ...place, rx });
  // The ends of the scale are near the ground of one theme.
  const end = isUp ? `M${-w / 2},${h / 2 - filled}h${w}` : `M${filled - w / 2},${-h / 2}v${h}`;
  const parts = grad ? [fill, part("path", { class: "gw-strip-end", d: end })] : [fill];
  if (text === "") return parts;
  const side = above === "start" ? -w / 2 : above === "end" ? w / 2 : 0;
  const at = isUp
    ? {
        ...{ x: side, y: (above ? -5 : 15) - node.shape.height / 2 },
        "text-anchor": above ?? "middle",
      }
    : { x: node.shape.width / 2 - 5, y: 4.5, "text-anchor": "end" };
  return [...parts, part("text", { class: "gw-text gw-strip-number", ...at }, text)];
}
