import type { Direction } from "../layout/direction";
import type { ContentCache } from "../layout/types";
import { makeScene } from "../scene/make_scene";
import type { Scene } from "../scene/scene";
import type { Measure } from "../text/measure";
import { type Folding, LARGEST_WHOLE } from "./folding";
import { type GroupedGraph, groupedPicture } from "./grouped_picture";
import { HAIR, isSurelyHair } from "./hair";

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
 * The picture of a graph as it is folded. `wraps` asks for columns; without, they come only where the picture would be a
 * hair. Returns whether it was wrapped along with the scene: opening a box must not throw columns back into one line.
 */
export function foldedScene(
  grouped: GroupedGraph,
  folding: Folding,
  direction: Direction,
  measure: Measure,
  { cache, wraps = false, report }: FoldedSceneOptions = {},
): { scene: Scene; wraps: boolean } {
  const picture = groupedPicture(grouped, folding);
  const isLarge = grouped.graph.nodes.length > LARGEST_WHOLE;
  const build = (aspect: number | undefined) =>
    makeScene(grouped.graph, picture, direction, measure, { aspect, cache });
  report?.("layout");
  if (wraps || (isLarge && isSurelyHair(picture))) return { scene: build(WINDOW), wraps: true };
  const scene = build(undefined);
  const length = Math.max(scene.width / scene.height, scene.height / scene.width);
  if (!isLarge || length <= HAIR) return { scene, wraps };
  report?.("wrapping");
  return { scene: build(WINDOW), wraps: true };
}
