import {
  deepest,
  type Folding,
  firstFolding,
  openBlock,
  openedByHand,
  wholeFolding,
} from "../fold/folding";
import { foldedPlan, type GroupedGraph, groupedGraph, visibleCount } from "../fold/grouped_graph";
import type { Direction } from "../layout/direction";
import { perObject, valueAt } from "../maps";
import { layoutsOf, MOST_CHOOSING } from "../place/layouts";
import { MOST_CARDS } from "../scene/card";
import { isStep } from "../scene/module_class";
import type { Plan } from "../scene/plan";
import type { Scene } from "../scene/scene";
import { fitView, LARGEST_FIT, LEGIBLE, type Room, tallRoom } from "../scene/views";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import {
  FEW_THINGS,
  openedAlike,
  openedFurther,
  stripsOf,
  withinBlocks,
  withLargestBox,
  withMore,
  withOneBlock,
} from "./opening";
import { type Draft, draftOf, foldedScene, likelyScale } from "./pipeline";

/** A board is drawn left to right unless another direction is this much larger. */
const PREFERRED = 1.15;
/** The least scale of a board instead of a model's boxes. */
const EASY = 1;
/** The least area of a closed box with its gaps, px². */
const LEAST_AREA = 4000;
/** In a larger graph no attempt is made to open more. */
const LARGEST_TRIED = 5000;
/** A nearly readable picture that shows so many times as much may be taller than the room. */
const MUCH_MORE = 2;
/** A low picture takes less than this share of the height. */
const LOW = 0.6;
/** Skip a picture with an estimated area of more than this many windows. */
const AT_MOST = 1.2;
/** In wider rooms, data flows to the right. Px. */
const NARROW = 1000;
/** The most open levels of a block. */
const MOST_LEVELS = 4;
/** How far below the readable scale a picture may be that then becomes taller, and how far a scale may shrink. */
const NEARLY = 0.95;

/** Per graph, measure and room, its initial folding: the choice of a direction needs it, too. */
const knownFoldings = perObject((_: GraphModel) => new Map<Measure, Map<string, Found>>());

/** The initial folding of a graph in a room. */
export function fittingFolding(
  grouped: GroupedGraph,
  direction: Direction,
  measure: Measure,
  room: Room,
): Folding {
  return found(grouped, direction, measure, room).folding;
}

/** A folding with its draft, unless it is the only one. */
interface Found {
  folding: Folding;
  draft?: Draft;
}

function found(grouped: GroupedGraph, direction: Direction, measure: Measure, room: Room): Found {
  const known = valueAt(knownFoldings(grouped.graph), measure, () => new Map<string, Found>());
  return valueAt(known, keyOfRoom(direction, room), () =>
    foundFolding(grouped, direction, measure, room),
  );
}

/**
 * The initial folding of a graph: of those that are readable as a whole in this room, the one that shows most; else the
 * one that shows least. Repeated blocks are closed strips. Opened compiled code is open wherever that is readable.
 */
function foundFolding(
  grouped: GroupedGraph,
  direction: Direction,
  measure: Measure,
  room: Room,
): Found {
  const { tree, graph } = grouped;
  const first = firstFolding(tree);
  if (tree.path.length === 1) return { folding: first };
  const layouts = layoutsOf(graph);
  const looks = new Map<string, Look>();
  const lookIn = (room: Room, least: number) => (folding: Folding) => {
    const plan = foldedPlan(grouped, folding);
    return valueAt(looks, [room.height, least, keyOf(plan)].join(), () => {
      const draft = draftOf(grouped, plan, direction, measure, { room, least });
      return {
        ...draft,
        k: fitView(draft, roomOf(draft, room)).k,
        tall: fitView(draft, tallRoom(room)).k,
        area: draft.width * draft.height,
      };
    });
  };
  const look = lookIn(room, LEGIBLE);
  const lookNearly = lookIn(room, NEARLY * LEGIBLE);
  const lookTall = lookIn(tallRoom(room), LEGIBLE);
  if (graph.nodes.length <= MOST_CARDS) {
    const isModel = graph.nodes.length > FEW_THINGS && !isLoop(grouped);
    if (boardScale(grouped, direction, measure, room) >= (isModel ? EASY : LEGIBLE))
      return { folding: wholeFolding(tree) };
  }
  const most = (room.width * room.height) / LEGIBLE ** 2 / LEAST_AREA;
  const isWithin = withinBlocks(grouped);
  const more = withMore(grouped);
  const hasMore = (g: number) => more[g] === 1 && !isWithin[g];
  const enough = (AT_MOST * room.width * room.height) / LEGIBLE ** 2;
  // The best folding with these boxes open.
  const fittingWith = (held: ReadonlySet<string>): { folding: Folding; isLegible: boolean } => {
    const tried = levelsOf(grouped, hasMore, held, most);
    const small = tried.filter(({ count }) => count <= most);
    const at = deepestLegible(small, lookNearly, (folding) =>
      likelyScale(grouped, foldedPlan(grouped, folding), direction, measure, { room }),
    );
    // Bypasses say more than what is in the boxes, if these would turn them into portals.
    const isLost = at >= 0 && look(small[at].folding).canBend;
    const bent = isLost ? small.slice(at).find(({ folding }) => look(folding).inHalves) : null;
    const found = bent ?? small[at];
    const level = (found ?? tried.at(-1))?.folding ?? first;
    if (!found || graph.nodes.length > LARGEST_TRIED)
      return { folding: level, isLegible: found !== undefined };
    const { area, inHalves } = look(level);
    const strips = stripsOf(grouped, level);
    let each = area / foldedPlan(grouped, level).nodes.length;
    const folding = openedFurther(grouped, level, hasMore, (folding) => {
      const { length } = foldedPlan(grouped, folding).nodes;
      // A far too large picture is not laid out.
      if (length > most || length * each > enough || layouts.isSpent) return false;
      // Another strip is worth a taller picture.
      const isMore = stripsOf(grouped, folding) > strips;
      const { k, area, inHalves: areStill } = (isMore ? lookTall : look)(folding);
      if (k < LEGIBLE || (inHalves && !areStill)) return false;
      each = area / length;
      return true;
    });
    const { hasPortals } = look(folding);
    const canOpen = (one: Folding, scale = LEGIBLE) =>
      !layouts.isSpent && look(one).k >= scale && (hasPortals || !look(one).hasPortals);
    const further = withOneBlock(grouped, folding, canOpen);
    // A picture at its largest scale that leaves much of the height free has room for more.
    const { k, height } = look(folding);
    const isLow = k >= LARGEST_FIT && k * height < LOW * room.height;
    const isLarge = further === folding && isLow;
    const last = isLarge ? withLargestBox(grouped, folding, hasMore, canOpen) : further;
    return { folding: last, isLegible: true };
  };
  const held = openedByHand(grouped);
  const withHeld = held.size > 0 ? fittingWith(held) : null;
  const { folding } = withHeld?.isLegible ? withHeld : fittingWith(new Set());
  return { folding, draft: look(folding) };
}

/** The foldings of not far more than `most` items that open all boxes down to a depth; most items first. */
function levelsOf(
  grouped: GroupedGraph,
  hasMore: (g: number) => boolean,
  held: ReadonlySet<string>,
  most: number,
): Level[] {
  const { tree, runs } = grouped;
  const blocks = runs.reduce((sum, run) => sum + run.length, 0);
  const levels: Level[] = [];
  for (let depth = deepest(tree); depth >= 0; depth--) {
    const isWanted = (g: number) => g > 0 && tree.depth[g] <= depth && hasMore(g);
    const open = new Set(tree.path.filter((path, g) => held.has(path) || isWanted(g)));
    const whole = { ...firstFolding(tree), open, hidesPlumbing: true };
    // The number of nodes in a layer is unknown at this point, perhaps two or three.
    if (visibleCount(grouped, whole) - blocks > 3 * most) continue;
    const plan = foldedPlan(grouped, whole);
    const folding = openedAlike(grouped, whole, plan, hasMore, held);
    const { nodes } = folding === whole ? plan : foldedPlan(grouped, folding);
    levels.push({ folding, count: nodes.length });
  }
  return levels.sort((a, b) => b.count - a.count);
}

/** A folding and its number of items. */
interface Level {
  folding: Folding;
  count: number;
}

/**
 * The index of the legible level with most items, or of one with far more that is nearly legible; -1 for none. Begins
 * with the one that is likely to be it: most items come first.
 */
function deepestLegible(
  levels: readonly Level[],
  look: (folding: Folding) => Look,
  likely: (folding: Folding) => number,
): number {
  const isLegible = (i: number) => look(levels[i].folding).k >= LEGIBLE;
  const first = levels.findIndex(({ folding }) => likely(folding) >= LEGIBLE);
  let at = first < 0 ? levels.length - 1 : first;
  if (at < 0) return at;
  if (isLegible(at)) while (at > 0 && isLegible(at - 1)) at--;
  else while (at < levels.length && !isLegible(at)) at++;
  if (at === levels.length) return -1;
  if (at === 0 || levels[at - 1].count < MUCH_MORE * levels[at].count) return at;
  const { k, tall } = look(levels[at - 1].folding);
  return k >= NEARLY * LEGIBLE && tall >= LEGIBLE ? at - 1 : at;
}

/** The scale and the extent of a folding in the room. */
interface Look extends Draft {
  k: number;
  /** The scale in the room at its greatest height. */
  tall: number;
  area: number;
}

/** The same for foldings that show the same. */
function keyOf({ nodes, frames }: Plan): string {
  const names = nodes.map(({ id, group }) => group?.paths.join("\n") ?? id);
  return [...names, "", ...frames.map(({ path }) => path)].join("\n");
}

/** How a folding is drawn. */
interface Drawn {
  direction: Direction;
  measure: Measure;
  room: Room;
}

/** Open a block of a strip with as many levels as are readable, at least one; null if it is none. */
export function openedBlock(
  grouped: GroupedGraph,
  folding: Folding,
  path: string,
  { direction, measure, room }: Drawn,
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
    fitView(draftOf(grouped, foldedPlan(grouped, next), direction, measure, { room }), room).k;
  const most = Math.min(MOST_LEVELS, within - tree.depth[g] - 1);
  // A box with only one item shows nothing new.
  let least = 0;
  while (least < most && contentOf(grouped, opened(least), path) < 2) least++;
  const enough = Math.min(LEGIBLE, NEARLY * scale(opened(least)));
  for (let levels = most; levels > least; levels--)
    if (scale(opened(levels)) >= enough) return opened(levels);
  return opened(least);
}

/** The number of items in an open block. */
function contentOf(grouped: GroupedGraph, folding: Folding, path: string): number {
  const { nodes, frames } = foldedPlan(grouped, folding);
  const isWithin = (f: number): boolean =>
    f >= 0 && (frames[f].path === path || isWithin(frames[f].parent));
  return nodes.filter(({ frame }) => isWithin(frame)).length;
}

/** Whether a graph has no modules, only the steps of loops: all of it says more than a strip, even as signs alone. */
function isLoop({ tree }: GroupedGraph): boolean {
  return tree.path.every((path) => path === "" || isStep(path));
}

/** Per graph, measure and room, the scale of its board: the initial folding needs it, too. */
const knownScales = perObject((_: GraphModel) => new Map<Measure, Map<string, number>>());

/** The scale at which a whole graph, laid out as cards, fits within the room that it may take. */
function boardScale(
  grouped: GroupedGraph,
  direction: Direction,
  measure: Measure,
  given: Room,
): number {
  const { tree, graph } = grouped;
  const known = valueAt(knownScales(graph), measure, () => new Map<string, number>());
  return valueAt(known, keyOfRoom(direction, given), () => {
    const plan = foldedPlan(grouped, wholeFolding(tree));
    const cards = isLoop(grouped) || "near";
    const isSmall = tree.path.length === 1 || graph.nodes.length <= FEW_THINGS;
    const room = isSmall || isLoop(grouped) ? given : { ...given, tallest: 0 };
    return fitView(draftOf(grouped, plan, direction, measure, { room, cards }), tallRoom(room)).k;
  });
}

/** All that the choice of a picture depends on. */
function keyOfRoom(direction: Direction, room: Room): string {
  const { width, height, tallest = 0, derivatives = false } = room;
  return [direction, width, height, tallest, derivatives].join();
}

/** From left to right, unless only from top to bottom a U-Net has its second half beside its first. */
function bentDirection(grouped: GroupedGraph, room: Room, measure: Measure): Direction {
  const first = (direction: Direction) => found(grouped, direction, measure, room).draft;
  const draft = first("left");
  if (!draft?.canBend || draft.inHalves) return "left";
  // A choice of its own.
  layoutsOf(grouped.graph).begin(MOST_CHOOSING);
  return first("up")?.inHalves ? "up" : "left";
}

/** A picture in halves may be as tall as a room can be. */
function roomOf({ inHalves }: Draft, room: Room): Room {
  return inHalves ? tallRoom(room) : room;
}

/** The direction with the largest board: left to right by default, like a formula; modules too. */
export function bestDirection(graph: GraphModel, room: Room, measure: Measure): Direction {
  if (graph.static) return "up"; // its data flows down
  const grouped = groupedGraph(graph);
  const scale = (direction: Direction) => boardScale(grouped, direction, measure, room);
  const isBoard = graph.nodes.length <= MOST_CARDS;
  const left = isBoard ? scale("left") : 0;
  if (left >= LEGIBLE) return "left";
  const isQuick = graph.nodes.length <= LARGEST_TRIED && room.width < NARROW;
  if (isBoard && scale("down") >= Math.max(LEGIBLE, PREFERRED * left)) return "down";
  return isQuick ? bentDirection(grouped, room, measure) : "left";
}

/** The first view of a graph; `whole` shows every node. */
export function firstScene(
  graph: GraphModel,
  direction: Direction,
  measure: Measure,
  whole: boolean,
  room: Room = { width: 1200, height: 700 },
): Scene {
  const grouped = groupedGraph(graph);
  const folding = whole
    ? wholeFolding(grouped.tree)
    : fittingFolding(grouped, direction, measure, room);
  return foldedScene(grouped, folding, direction, measure, { room });
}
