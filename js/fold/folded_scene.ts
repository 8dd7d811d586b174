import type { Direction } from "../layout/direction";
import type { ContentCache } from "../layout/types";
import { makeScene } from "../scene/make_scene";
import type { Scene } from "../scene/scene";
import type { Size } from "../scene/views";
import type { Measure } from "../text/measure";
import { type Folding, LARGEST_WHOLE } from "./folding";
import { foldedPlan, type GroupedGraph } from "./grouped_graph";

/** A window to look through, where it is not known, px. */
export const WINDOW = { width: 1200, height: 600 };

interface FoldedSceneOptions {
  /** Contents laid out before. */
  cache?: ContentCache;
  /** The window that it is to fill. */
  room?: Size;
}

/** Whether there is anything to fold: modules, or so many nodes that plumbing is in the way. */
export function canFold({ tree, graph }: GroupedGraph): boolean {
  return tree.path.length > 1 || graph.nodes.length > LARGEST_WHOLE;
}

/** The picture of a graph as it is folded. */
export function foldedScene(
  grouped: GroupedGraph,
  folding: Folding,
  direction: Direction,
  measure: Measure,
  options: FoldedSceneOptions = {},
): Scene {
  const plan = foldedPlan(grouped, folding);
  return makeScene(grouped.graph, plan, direction, measure, { room: WINDOW, ...options });
}
