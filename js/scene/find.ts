import { leastBy } from "../maps";
import { type Box, boxIn } from "./grid";
import type { Scene, SceneNode } from "./scene";
import { type Size, seen, type View } from "./views";

/** The copy of a node nearest to the middle of the view. */
export function nearestCopy(
  scene: Scene | null,
  id: number,
  view: View,
  stage: Size,
): number | null {
  const copies = scene?.drawn[id] ?? [];
  if (!scene) return null;
  const { left, top, right, bottom } = seen(view, stage, 0);
  const distance = (i: number) =>
    Math.hypot(scene.nodes[i].x - (left + right) / 2, scene.nodes[i].y - (top + bottom) / 2);
  return leastBy(copies, distance);
}

/** The visible box of an open or closed group with these members; null if hidden. */
export function boxAround(scene: Scene, path: string, members: Iterable<number>): Box | null {
  const frame = scene.frames.find((one) => one.path === path);
  if (frame) return frame;
  const drawn = new Set([...members].flatMap((id) => scene.drawn[id] ?? []));
  const boxes = Array.from(drawn, (index) => boxOf(scene.nodes[index]));
  if (boxes.length === 0) return null;
  return boxes.reduce((a, b) => ({
    left: Math.min(a.left, b.left),
    top: Math.min(a.top, b.top),
    right: Math.max(a.right, b.right),
    bottom: Math.max(a.bottom, b.bottom),
  }));
}

export function boxOf({ x, y, shape: { width, height } }: Pick<SceneNode, "x" | "y" | "shape">) {
  return boxIn({ x, y, width, height });
}
