import type { Direction } from "../layout/direction";
import type { ContentCache } from "../layout/types";
import { makeScene } from "../scene/make_scene";
import type { Scene } from "../scene/scene";
import type { Measure } from "../text/measure";
import { type Folding, LARGEST_WHOLE } from "./folding";
import { foldedPlan, type GroupedGraph } from "./grouped_graph";
import { isSurelyOverlong, OVERLONG } from "./overlong";

/** Wanted width over height of a wrapped picture: about a window's. */
const WINDOW = 1.8;

interface FoldedSceneOptions {
  /** Contents laid out before. */
  cache?: ContentCache;
  wraps?: boolean;
  /** Told what is being done. */
  report?(stage: "layout" | "wrapping"): void;
}

/** Whether there is anything to fold: modules, or so many nodes that plumbing is in the way. */
export function canFold({ tree, graph }: GroupedGraph): boolean {
  return tree.path.length > 1 || graph.nodes.length > LARGEST_WHOLE;
}

/**
 * The picture of a graph as it is folded. `wraps` asks for columns; without, they come only where the picture would be
 * far too long. Returns whether it was wrapped along with the scene: opening a box must not throw columns back into one line.
 */
export function foldedScene(
  grouped: GroupedGraph,
  folding: Folding,
  direction: Direction,
  measure: Measure,
  { cache, wraps = false, report }: FoldedSceneOptions = {},
): { scene: Scene; wraps: boolean } {
  const plan = foldedPlan(grouped, folding);
  const isLarge = grouped.graph.nodes.length > LARGEST_WHOLE;
  const build = (aspect: number | undefined) =>
    makeScene(grouped.graph, plan, direction, measure, { aspect, cache });
  report?.("layout");
  if (wraps || (isLarge && isSurelyOverlong(plan))) return { scene: build(WINDOW), wraps: true };
  const scene = build(undefined);
  const length = Math.max(scene.width / scene.height, scene.height / scene.width);
  if (!isLarge || length <= OVERLONG) return { scene, wraps };
  report?.("wrapping");
  return { scene: build(WINDOW), wraps: true };
}
