import { prefersLessMotion } from "../dom/motion";
import type { Scene } from "../scene/scene";
import type { View } from "../scene/views";

/** Pictures of more items than this change at once. */
const MOST_MOVING = 150;
const MOVE_MS = 260;

/** What of a scene is the same thing in another picture of the same graph. */
interface Before {
  scene: Scene;
  view: View;
}

/** Lets the nodes of a new picture glide from where they were in the one before; what is new, or on a canvas, fades in. */
export function glide(stage: Element, before: Before, scene: Scene, view: View): void {
  const items = scene.nodes.length + scene.frames.length;
  if (items > MOST_MOVING || prefersLessMotion()) return;
  const old = (id: number, copy: number) => {
    const was = before.scene.drawn[id];
    const node = before.scene.nodes[was?.[Math.min(copy, was.length - 1)] ?? -1];
    if (!node) return null;
    const x = (before.view.k * node.x + before.view.x - view.x) / view.k;
    const y = (before.view.k * node.y + before.view.y - view.y) / view.k;
    return { x, y, same: node.id === id && !node.group };
  };
  for (const element of stage.querySelectorAll<SVGGElement>(".gw-node")) {
    const node = scene.nodes[Number(element.dataset.index)];
    if (typeof element.animate !== "function" || !node) return;
    const from = old(node.id, Math.max(0, scene.drawn[node.id].indexOf(node.index)));
    const there = `translate(${node.x}px, ${node.y}px)`;
    const start = from ? `translate(${from.x}px, ${from.y}px)` : there;
    element.animate(
      [
        { transform: start, opacity: from?.same || node.group ? 1 : 0 },
        { transform: there, opacity: 1 },
      ],
      { duration: MOVE_MS, easing: "ease-out" },
    );
  }
  for (const element of stage.querySelectorAll(
    ".gw-edges, .gw-frames, .gw-frame-heads, .gw-gradients, .gw-raster",
  ))
    element.animate?.([{ opacity: 0 }, { opacity: 0, offset: 0.5 }, { opacity: 1 }], {
      duration: MOVE_MS * 1.5,
      easing: "ease-out",
    });
}
