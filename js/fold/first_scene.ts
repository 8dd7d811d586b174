import type { Direction } from "../layout/direction";
import type { ContentCache } from "../layout/types";
import { MOST_CARDS } from "../scene/card";
import type { Scene } from "../scene/scene";
import { fitView, type Size } from "../scene/views";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import { foldedScene } from "./folded_scene";
import { deepest, type Folding, firstFolding, setRepeats, wholeFolding } from "./folding";
import { foldedPlan, type GroupedGraph, groupedGraph } from "./grouped_graph";
import { visibleCount } from "./visible_count";

/** A board reads from left to right unless it is this much larger the other way. */
const PREFERRED = 1.15;
/** The scale at which the names of boxes are 11 px high. */
export const LEGIBLE = 11 / 12.5;
/** The scale at which a board is shown whole: in a narrow window, and in a wide one. */
const BOARD = [0.55, 0.75];
/** A wide window, px. */
const WIDE = 1200;
/** What a closed box and the gaps around it take at least, px². */
const LEAST_AREA = 4000;
/** In a graph of more nodes than this it takes too long to try repeats as well. */
const LARGEST_TRIED = 30_000;

/**
 * What a graph looks like before the reader touches it: of what can be read as a whole in this room, the folding that
 * shows most; the one that shows least where none can. Repeats are folded where they do not fit one by one.
 */
export function fittingFolding(
  grouped: GroupedGraph,
  direction: Direction,
  measure: Measure,
  room: Size,
  cache: ContentCache = new Map(),
): Folding {
  const { tree, graph, operations } = grouped;
  const first = firstFolding(tree);
  if (tree.path.length === 1) return first;
  const isHuge = graph.nodes.length > LARGEST_TRIED;
  const scale = (folding: Folding) =>
    fitView(foldedScene(grouped, folding, direction, measure, { cache, room }), room).k;
  if (graph.nodes.length <= MOST_CARDS) {
    const whole = wholeFolding(tree);
    if (scale(whole) >= BOARD[room.width < WIDE ? 0 : 1]) return whole;
  }
  const most = (room.width * room.height) / LEGIBLE ** 2 / LEAST_AREA;
  const tried: { folding: Folding; count: number }[] = [];
  for (let depth = deepest(tree); depth >= 0; depth--) {
    // A module without others in it is one tile, and so is one with a single operation somewhere in it.
    const hasMore = (g: number) =>
      tree.children.start[g + 1] > tree.children.start[g] && operations[g] > 1;
    const open = new Set(tree.path.filter((_, g) => g > 0 && tree.depth[g] <= depth && hasMore(g)));
    const apart = { ...first, open, hidesPlumbing: true };
    for (const folding of isHuge ? [apart] : [apart, setRepeats(apart, true)]) {
      // What a layer takes in is not known before: it may be two of three.
      const isNear = folding.foldsRepeats || visibleCount(grouped, folding) <= 3 * most;
      if (isNear) tried.push({ folding, count: foldedPlan(grouped, folding).nodes.length });
    }
  }
  const found = tried
    .sort((a, b) => b.count - a.count)
    .find(({ folding, count }) => count <= most && scale(folding) >= LEGIBLE);
  return (found ?? tried.at(-1))?.folding ?? first;
}

/** The direction that shows a board largest: data from left to right, like a formula; that of modules, too. */
export function bestDirection(graph: GraphModel, room: Size, measure: Measure): Direction {
  if (graph.static) return "up"; // its data flows down
  if (graph.nodes.length > MOST_CARDS)
    return graph.nodes.some(({ namespace }) => namespace) ? "left" : "down";
  const grouped = groupedGraph(graph);
  const whole = wholeFolding(grouped.tree);
  const scale = (direction: Direction) =>
    fitView(foldedScene(grouped, whole, direction, measure, { room }), room).k;
  const left = scale("left");
  return left >= BOARD[1] || left * PREFERRED >= scale("down") ? "left" : "down";
}

/** What a reader sees of a graph before opening or folding anything; `whole` shows every node. */
export function firstScene(
  graph: GraphModel,
  direction: Direction,
  measure: Measure,
  whole: boolean,
  room: Size = { width: 1200, height: 700 },
): Scene {
  const grouped = groupedGraph(graph);
  const folding = whole
    ? wholeFolding(grouped.tree)
    : fittingFolding(grouped, direction, measure, room);
  return foldedScene(grouped, folding, direction, measure, { room });
}
