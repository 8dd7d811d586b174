import type { Direction } from "../layout/direction";
import type { Scene } from "../scene/scene";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import { foldedScene } from "./folded_scene";
import { firstFolding, wholeFolding } from "./folding";
import { groupedGraph } from "./grouped_graph";

/** What a reader sees of a graph before opening or folding anything; `whole` shows every node. */
export function firstScene(
  graph: GraphModel,
  direction: Direction,
  measure: Measure,
  whole: boolean,
): Scene {
  const grouped = groupedGraph(graph);
  const folding = whole ? wholeFolding(grouped.tree) : firstFolding(grouped.tree);
  return foldedScene(grouped, folding, direction, measure).scene;
}
