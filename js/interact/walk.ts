import { type Direction, isHorizontal } from "../layout/direction";
import { leastBy } from "../maps";
import type { Marks } from "../paint/marks";
import type { Scene, SceneNode } from "../scene/scene";

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
  return leastBy(ends, (end) => Math.abs(scene.nodes[end][across] - at[across]));
}

/** The nearest node beside it in about the same row. */
function besides(scene: Scene, from: number, step: "before" | "after"): number | null {
  const horizontal = isHorizontal(scene.direction);
  const across = horizontal ? "y" : "x";
  const along = horizontal ? "x" : "y";
  const at = scene.nodes[from];
  const sizeOf = ({ shape }: SceneNode) => (horizontal ? shape.outerWidth : shape.outerHeight);
  const aheadOf = (node: SceneNode) => (node[across] - at[across]) * (step === "after" ? 1 : -1);
  const besides = scene.nodes.filter(
    (node) =>
      aheadOf(node) > 0 && Math.abs(node[along] - at[along]) <= (sizeOf(node) + sizeOf(at)) / 2,
  );
  return leastBy(besides, aheadOf)?.index ?? null;
}

/** The first node to focus: the selected one, else the first output, else the first node. */
export function firstStop(scene: Scene, selected: number | null): number | null {
  if (selected !== null && scene.drawn[selected]) return scene.drawn[selected][0];
  const root = scene.nodes.find((node) => node.root) ?? scene.nodes[0];
  return root ? root.index : null;
}

/** Words for the end of a walk. */
const END = {
  along: "This node has no inputs in the graph.",
  against: "Nothing in the graph uses this node.",
  before: "This is the first node of its row.",
  after: "This is the last node of its row.",
};

interface KeyActions {
  keyed(key: string, node: SceneNode): boolean;
  select(node: SceneNode): void;
  stopAt(index: number | null): void;
  say(words: string): void;
  escape(): void;
  zoomBy(factor: number): void;
}

const ZOOM: Readonly<Record<string, number>> = { "+": 1.4, "=": 1.4, "-": 1 / 1.4 };

export class Keyboard {
  /** The node of the last step along or against the flow, to return to. */
  private cameFrom: number | null = null;

  constructor(private readonly actions: KeyActions) {}

  /** Handle a key; false if it has no meaning here. */
  press(event: KeyboardEvent, scene: Scene, { focused, selected }: Marks): boolean {
    const { key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const { actions } = this;
    const node = focused === null ? null : scene.nodes[focused];
    if (node && actions.keyed(key, node)) return true;
    const step = stepOf(key, scene.direction);
    if (step) {
      const next =
        focused === null ? firstStop(scene, selected) : walk(scene, focused, step, this.cameFrom);
      if (next === null) actions.say(END[step]);
      else {
        this.cameFrom = step === "along" || step === "against" ? focused : null;
        actions.stopAt(next);
      }
    } else if (key === "Enter" || key === " ") {
      if (node) actions.select(node);
    } else if (key === "Escape") actions.escape();
    else if (key === "Home") actions.stopAt(firstStop(scene, null));
    else if (key in ZOOM) actions.zoomBy(ZOOM[key]);
    else return false;
    return true;
  }

  forget(): void {
    this.cameFrom = null;
  }
}
