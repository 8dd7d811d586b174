import type { Direction } from "../layout/direction";
import type { ContentCache } from "../layout/types";
import { MOST_CARDS } from "../scene/card";
import type { Scene } from "../scene/scene";
import { fitView, type Size } from "../scene/views";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import { foldedScene } from "./folded_scene";
import { deepest, type Folding, firstFolding, openBlock, wholeFolding } from "./folding";
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
/** So many levels of what is in a block are opened at most. */
const MOST_LEVELS = 4;
/** More of them are shown where that makes the picture hardly smaller. */
const NEARLY = 0.95;

/**
 * What a graph looks like before the reader touches it: of what can be read as a whole in this room, the folding that
 * shows most; the one that shows least where none can. Repeated blocks are strips, and closed.
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
  const scale = (folding: Folding) =>
    fitView(foldedScene(grouped, folding, direction, measure, { cache, room }), room).k;
  if (graph.nodes.length <= MOST_CARDS) {
    const whole = wholeFolding(tree);
    if (scale(whole) >= BOARD[room.width < WIDE ? 0 : 1]) return whole;
  }
  const most = (room.width * room.height) / LEGIBLE ** 2 / LEAST_AREA;
  const isWithin = withinBlocks(grouped);
  const blocks = grouped.runs.reduce((sum, run) => sum + run.length, 0);
  const tried: { folding: Folding; count: number }[] = [];
  for (let depth = deepest(tree); depth >= 0; depth--) {
    // A module without others in it is one tile, and so is one with a single operation somewhere in it; a block is a bar.
    const hasMore = (g: number) =>
      tree.children.start[g + 1] > tree.children.start[g] && operations[g] > 1 && !isWithin[g];
    const open = new Set(tree.path.filter((_, g) => g > 0 && tree.depth[g] <= depth && hasMore(g)));
    const folding = { ...first, open, hidesPlumbing: true };
    // What a layer takes in is not known before: it may be two of three.
    if (visibleCount(grouped, folding) - blocks <= 3 * most)
      tried.push({ folding, count: foldedPlan(grouped, folding).nodes.length });
  }
  const found = tried
    .sort((a, b) => b.count - a.count)
    .find(({ folding, count }) => count <= most && scale(folding) >= LEGIBLE);
  return (found ?? tried.at(-1))?.folding ?? first;
}

/** Per group, 1 if it is a block of a strip or lies in one. */
function withinBlocks({ tree, runs }: GroupedGraph): Uint8Array {
  const isWithin = new Uint8Array(tree.path.length);
  for (const run of runs) for (const g of run) isWithin[g] = 1;
  for (let g = 1; g < isWithin.length; g++) isWithin[g] ||= isWithin[tree.parent[g]];
  return isWithin;
}

/**
 * A block of a strip opened in a lens: as many levels of it as can be read, at least what lies in it directly. Null where
 * it is a block of no strip.
 */
export function openedBlock(
  grouped: GroupedGraph,
  folding: Folding,
  path: string,
  direction: Direction,
  measure: Measure,
  room: Size,
  cache: ContentCache = new Map(),
): Folding | null {
  const { tree } = grouped;
  const g = tree.byPath.get(path) ?? 0;
  const run = folding.foldsRepeats ? grouped.runs.find((blocks) => blocks.includes(g)) : undefined;
  if (!run) return null;
  const within = tree.path.reduce(
    (most, one, i) => (one.startsWith(`${path}/`) ? Math.max(most, tree.depth[i]) : most),
    tree.depth[g],
  );
  const opened = (levels: number) => openBlock(tree, folding, run, path, levels);
  const scale = (next: Folding) =>
    fitView(foldedScene(grouped, next, direction, measure, { cache, room }), room).k;
  const most = Math.min(MOST_LEVELS, within - tree.depth[g] - 1);
  // What holds but one other thing shows nothing.
  let least = 0;
  while (least < most && contentOf(grouped, opened(least), path) < 2) least++;
  const enough = Math.min(LEGIBLE, NEARLY * scale(opened(least)));
  for (let levels = most; levels > least; levels--)
    if (scale(opened(levels)) >= enough) return opened(levels);
  return opened(least);
}

/** How many things show in the lens of a block. */
function contentOf(grouped: GroupedGraph, folding: Folding, path: string): number {
  const { lenses = [] } = foldedPlan(grouped, folding);
  const nodes = lenses.find((lens) => lens.path === path)?.plan.nodes ?? [];
  return nodes.filter(({ gate }) => !gate).length;
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
