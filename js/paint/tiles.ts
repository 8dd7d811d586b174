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
