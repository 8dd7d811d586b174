import { prefersLessMotion } from "../dom/theme";
import type { Scene } from "../scene/scene";
import type { View } from "../scene/views";

/** The most items of a picture that moves; larger ones change at once. */
const MOST_MOVING = 150;
const MOVE_MS = 260;

/** The identity of a scene's items across pictures of a graph. */
interface Before {
  scene: Scene;
  view: View;
}

/**
 * Move a new picture's nodes from their earlier places. New ones, or all on a canvas, fade in. `was` has each node's id
 * in the graph before; null for the same graph.
 */
export function glide(
  stage: Element,
  before: Before,
  scene: Scene,
  view: View,
  was: readonly (number | null)[] | null = null,
): void {
  const items = scene.nodes.length + scene.frames.length;
  if (items > MOST_MOVING || prefersLessMotion()) return;
  const old = (id: number, copy: number) => {
    const then = was === null ? id : was[id];
    const drawn = before.scene.drawn[then ?? -1];
    const node = before.scene.nodes[drawn?.[Math.min(copy, drawn.length - 1)] ?? -1];
    if (!node) return null;
    const x = (before.view.k * node.x + before.view.x - view.x) / view.k;
    const y = (before.view.k * node.y + before.view.y - view.y) / view.k;
    return { x, y, same: node.id === then && !node.group };
  };
  for (const element of stage.querySelectorAll<SVGGElement>(".gw-node")) {
    const node = scene.nodes[Number(element.dataset.index)];
    if (!node) return;
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
    element.animate([{ opacity: 0 }, { opacity: 0, offset: 0.5 }, { opacity: 1 }], {
      duration: MOVE_MS * 1.5,
      easing: "ease-out",
    });
}

/** Nodes' elements without a partner in the next picture, for `vanish`. */
export function leaving(
  stage: Element,
  scene: Scene,
  was: readonly (number | null)[],
): SVGGElement[] {
  if (scene.nodes.length > MOST_MOVING || prefersLessMotion()) return [];
  const kept = new Set(was);
  return Array.from(stage.querySelectorAll<SVGGElement>(".gw-node")).flatMap((element) => {
    const node = scene.nodes[Number(element.dataset.index)];
    if (!node || node.group || kept.has(node.id)) return [];
    const ghost = element.cloneNode(true) as SVGGElement;
    ghost.removeAttribute("data-index");
    ghost.classList.replace("gw-node", "gw-ghost");
    return [ghost];
  });
}

/** Fade elements out at their places, and remove them. */
export function vanish(
  layer: SVGGElement,
  ghosts: readonly SVGGElement[],
  then: View,
  now: View,
): void {
  for (const ghost of ghosts) {
    if (typeof ghost.animate !== "function") return;
    const k = then.k / now.k;
    const [x, y] = [(then.x - now.x) / now.k, (then.y - now.y) / now.k];
    const holder = document.createElementNS("http://www.w3.org/2000/svg", "g");
    holder.setAttribute("transform", `translate(${x},${y}) scale(${k})`);
    holder.append(ghost);
    layer.append(holder);
    const fading = ghost.animate([{ opacity: 1 }, { opacity: 0 }], { duration: MOVE_MS });
    fading.onfinish = () => holder.remove();
    fading.oncancel = () => holder.remove();
  }
}
