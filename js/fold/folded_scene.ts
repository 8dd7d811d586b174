import type { Direction } from "../layout/direction";
import type { ContentCache } from "../layout/types";
import { makeScene } from "../scene/make_scene";
import type { Scene } from "../scene/scene";
import { fitView, type Size } from "../scene/views";
import type { Measure } from "../text/measure";
import { type Folding, LARGEST_WHOLE } from "./folding";
import { foldedPlan, type GroupedGraph } from "./grouped_graph";

/** A window to look through, where it is not known, px. */
const WINDOW = { width: 1200, height: 600 };
/** Pictures of at most so many nodes are laid out twice, as they come and wrapped, to show them as large as can be. */
const MOST_TWICE = 300;
/** A picture is wrapped where that shows it so many times as large. */
const WORTH_WRAPPING = 1.1;

interface FoldedSceneOptions {
  /** Contents laid out before. */
  cache?: ContentCache;
  wraps?: boolean;
  /** The window that it is to fill. */
  room?: Size;
}

/** Whether there is anything to fold: modules, or so many nodes that plumbing is in the way. */
export function canFold({ tree, graph }: GroupedGraph): boolean {
  return tree.path.length > 1 || graph.nodes.length > LARGEST_WHOLE;
}

/**
 * The picture of a graph as it is folded. `wraps` asks for columns; without, they come only where they show it larger,
 * or where it is large. Returns whether it was wrapped along with the scene: opening a box must not throw columns back into one line.
 */
export function foldedScene(
  grouped: GroupedGraph,
  folding: Folding,
  direction: Direction,
  measure: Measure,
  { cache, wraps = false, room = WINDOW }: FoldedSceneOptions = {},
): { scene: Scene; wraps: boolean } {
  const plan = foldedPlan(grouped, folding);
  const build = (wrapped: boolean) =>
    makeScene(grouped.graph, plan, direction, measure, { room: wrapped ? room : undefined, cache });
  const scene = build(wraps || plan.nodes.length > MOST_TWICE);
  if (wraps || plan.nodes.length > MOST_TWICE) return { scene, wraps: true };
  const wrapped = build(true);
  return fitView(wrapped, room).k > WORTH_WRAPPING * fitView(scene, room).k
    ? { scene: wrapped, wraps: true }
    : { scene, wraps };
}
