import type { Box } from "./grid";
import type { Scene } from "./scene";
import { type Size, seen, type View } from "./views";

/** Of a node's copies, the one nearest to the middle of what is seen. */
export function nearestCopy(
  scene: Scene | null,
  id: number,
  view: View,
  stage: Size,
): number | null {
  const copies = scene?.drawn[id];
  if (!scene || !copies) return null;
  const { left, top, right, bottom } = seen(view, stage, 0);
  const distance = (i: number) =>
    Math.hypot(scene.nodes[i].x - (left + right) / 2, scene.nodes[i].y - (top + bottom) / 2);
  return copies.reduce((best, i) => (distance(i) < distance(best) ? i : best), copies[0]);
}

/** The seen box of a drawn node. */
export function boxOf({ x, y, shape }: Scene["nodes"][number]): Box {
  return {
    left: x - shape.width / 2,
    top: y - shape.height / 2,
    right: x + shape.width / 2,
    bottom: y + shape.height / 2,
  };
}
