import { type Direction, isHorizontal } from "../layout/direction";
import type { Scene } from "../scene/scene";

/** "along" goes to a node's inputs, "against" to its consumers; "before" and "after" stay in its row. */
export type Step = "along" | "against" | "before" | "after";

const ARROWS: Record<Direction, Record<string, Step>> = {
  down: { ArrowDown: "along", ArrowUp: "against", ArrowLeft: "before", ArrowRight: "after" },
  up: { ArrowUp: "along", ArrowDown: "against", ArrowLeft: "before", ArrowRight: "after" },
  right: { ArrowRight: "along", ArrowLeft: "against", ArrowUp: "before", ArrowDown: "after" },
  left: { ArrowLeft: "along", ArrowRight: "against", ArrowUp: "before", ArrowDown: "after" },
};

/** The meaning of an arrow key in this direction. */
export function stepOf(key: string, direction: Direction): Step | null {
  return ARROWS[direction][key] ?? null;
}

/** The drawn node one step away, or null at an end. A step back returns to `previous` if there are several ways. */
export function walk(
  scene: Scene,
  from: number,
  step: Step,
  previous: number | null = null,
): number | null {
  const across = isHorizontal(scene.direction) ? "y" : "x";
  const at = scene.nodes[from];
  if (step === "before" || step === "after") return besides(scene, from, step);
  const ends = new Set<number>();
  for (const edge of scene.edges) {
    if (step === "along" && edge.source === from) ends.add(edge.target);
    if (step === "against" && edge.target === from) ends.add(edge.source);
  }
  ends.delete(from);
  if (previous !== null && ends.has(previous)) return previous;
  let best: number | null = null;
  for (const end of ends) {
    const distance = Math.abs(scene.nodes[end][across] - at[across]);
    if (best === null || distance < Math.abs(scene.nodes[best][across] - at[across])) best = end;
  }
  return best;
}

/** The nearest node beside it in about the same row. */
function besides(scene: Scene, from: number, step: "before" | "after"): number | null {
  const horizontal = isHorizontal(scene.direction);
  const across = horizontal ? "y" : "x";
  const along = horizontal ? "x" : "y";
  const at = scene.nodes[from];
  const size = (i: number) =>
    horizontal ? scene.nodes[i].shape.outerWidth : scene.nodes[i].shape.outerHeight;
  let best: number | null = null;
  for (const node of scene.nodes) {
    const ahead = step === "after" ? node[across] - at[across] : at[across] - node[across];
    if (node.index === from || ahead <= 0) continue;
    if (Math.abs(node[along] - at[along]) > (size(node.index) + size(from)) / 2) continue;
    if (best === null || ahead < Math.abs(scene.nodes[best][across] - at[across]))
      best = node.index;
  }
  return best;
}

/** The first node to focus: the selected one, else the first output, else the first node. */
export function firstStop(scene: Scene, selected: number | null): number | null {
  if (selected !== null && scene.drawn[selected]) return scene.drawn[selected][0];
  const root = scene.nodes.find((node) => node.root) ?? scene.nodes[0];
  return root ? root.index : null;
}

/** Words for the end of a walk. */
export const END = {
  along: "This node has no inputs in the graph.",
  against: "Nothing in the graph uses this node.",
  before: "This is the first node of its row.",
  after: "This is the last node of its row.",
};
