import type { Folding } from "../fold/folding";
import { foldedPlan, type GroupedGraph } from "../fold/grouped_graph";
import { type Direction, isHorizontal } from "../layout/direction";
import { hasNestedBypasses } from "../place/bend";
import {
  LEAST_SMALLEST,
  layoutsOf,
  MOST_CHOOSING,
  MOST_DRAFTING,
  MOST_PLACING,
} from "../place/layouts";
import { hasRails } from "../place/portals";
import { drawn } from "../scene/curves";
import { placeLinks } from "../scene/links";
import { isBody, isStep } from "../scene/module_class";
import type { CardSize, NodeShape } from "../scene/node_shape";
import type { Plan } from "../scene/plan";
import type { Scene } from "../scene/scene";
import { isWork } from "../scene/shown_graph";
import {
  cardIn,
  isOfCards,
  isShortVector,
  type Planned,
  type Sized,
  sized,
  WINDOW,
} from "../scene/sizes";
import { fitView, LEGIBLE, type Room, type Size, tallRoom } from "../scene/views";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import { boundOf, FILL } from "./bounds";
import { bendIn, place } from "./place";

// From a graph to its scene:
//
//   fold ► scene (sizes ► layout ► curves) ► paint
//
// Every stage is a function of what the stage before returned. None touches the DOM, so that a worker and an engine
// without a page can run them. `Painting` paints the scene.

interface SceneOptions {
  /** The window to fill: longer pictures are wrapped. By default nothing is wrapped. */
  room?: Room | undefined;
  /** The nodes' sizes, if known. */
  shapes?: readonly NodeShape[];
  /** Whether small graphs are drawn as cards, or how. */
  cards?: boolean | Level;
  /** Whether a leaf with several uses on a board is drawn once per use. */
  copies?: boolean;
  /** Whether cards of vectors have room for lists of gradients. */
  lists?: boolean;
  /** Whether the gradients of small cards have room for three digits, not four. */
  narrow?: boolean;
}

/** How much a board shows: the next level is taken where the one before is illegible. */
type Level = CardSize | "signs";
const LEVELS: readonly Level[] = ["full", "near", "signs"];

/** Make the scene of a graph in one folding, with layouts of its own. */
export function foldedScene(
  grouped: GroupedGraph,
  folding: Folding,
  direction: Direction,
  measure: Measure,
  options: Omit<SceneOptions, "shapes"> = {},
): Scene {
  const { graph } = grouped;
  const layouts = layoutsOf(graph);
  const plan = foldedPlan(grouped, folding);
  // The level of cards is a choice, too.
  layouts.begin(canBeCards(graph, plan) ? MOST_CHOOSING : MOST_PLACING);
  const scene = makeScene(graph, plan, direction, measure, { room: WINDOW, ...options });
  layouts.begin(MOST_CHOOSING);
  return scene;
}

/** The size of a picture, and what data goes through portals: a draft of its scene. */
export interface Draft extends Size {
  inHalves: boolean;
  /** Whether it might be in halves, in another direction or with fewer open boxes. */
  canBend: boolean;
  hasPortals: boolean;
}

/** The likely scale of a folding's scene, without a layout. */
export function likelyScale(
  grouped: GroupedGraph,
  plan: Plan,
  direction: Direction,
  measure: Measure,
  options: SceneOptions & { room: Room },
): number {
  const withSizes = sizedPlan(grouped.graph, plan, direction, measure, options);
  return boundOf(withSizes, options.room, FILL.usual);
}

/** Whether a picture may have this scale in a room: cards if they can, tiles if they are likely to. */
function isLikely(sized: Sized, room: Room, least: number): boolean {
  if (isOfCards(sized)) return boundOf(sized, tallRoom(room)) >= least;
  // Halves may be as tall as a room can be.
  if (hasNestedBypasses(sized.plan)) return boundOf(sized, tallRoom(room), FILL.inHalves) >= least;
  return boundOf(sized, room, FILL.likely) >= least;
}

/** A draft of a folding's scene, unless its scale is hardly the `least`: it may have faults that its scene has not. */
export function draftOf(
  grouped: GroupedGraph,
  plan: Plan,
  direction: Direction,
  measure: Measure,
  { least = LEGIBLE, ...options }: SceneOptions & { room: Room; least?: number },
): Draft {
  const { graph } = grouped;
  const { cards = true, room } = options;
  if (cards === true && canBeCards(graph, plan)) {
    const scene = makeScene(graph, plan, direction, measure, options);
    return {
      width: scene.width,
      height: scene.height,
      inHalves: false,
      canBend: false,
      hasPortals: false,
    };
  }
  const withSizes = sizedPlan(graph, plan, direction, measure, options);
  const layouts = layoutsOf(graph);
  // Illegible in any arrangement, or not to be laid out any more.
  if (!isLikely(withSizes, room, least) || layouts.isSpent) {
    const scale = boundOf(withSizes, room, FILL.usual);
    const size = { width: room.width / scale, height: room.height / scale };
    return { ...size, inHalves: false, canBend: false, hasPortals: false };
  }
  const placed = layouts.atMost(MOST_DRAFTING, () => place(withSizes, measure, room, true));
  const { edges } = withSizes.plan;
  // Shared parameters do not count.
  const hasPortals = [...(placed.portals?.keys() ?? [])].some((e) => {
    const last = edges[e].edges.at(-1);
    return last !== undefined && graph.nodes[graph.edges[last].target].kind !== "leaf";
  });
  const [width, height] = isHorizontal(direction)
    ? [placed.height, placed.width]
    : [placed.width, placed.height];
  const canBend = hasPortals && bendIn(withSizes, room, measure) !== null;
  return { width, height, inHalves: placed.isMirrored !== undefined, canBend, hasPortals };
}

/** Whether a plan may be drawn as cards alone. */
function canBeCards(graph: GraphModel, plan: Plan): boolean {
  return isOfCards({ card: cardIn(graph, plan), plan });
}

export function makeScene(
  graph: GraphModel,
  plan: Plan,
  direction: Direction,
  measure: Measure,
  options: SceneOptions = {},
): Scene {
  const { cards = true, room } = options;
  const card = cards === true ? cardIn(graph, plan) : null;
  if (card && room && canBeCards(graph, plan))
    return bestLevel(
      card,
      room,
      plan.nodes.some(({ id }) => isShortVector(graph.nodes[id])),
      (cards) =>
        boundOf(sizedPlan(graph, plan, direction, measure, { ...options, cards }), tallRoom(room)),
      (shown) => {
        if (shown.narrow || shown.cards === "signs") layoutsOf(graph).atLeast(LEAST_SMALLEST);
        return makeScene(graph, plan, direction, measure, { ...options, ...shown });
      },
    );
  const withSizes = sizedPlan(graph, plan, direction, measure, options);
  const placed = place(withSizes, measure, room);
  const scene = drawn(withSizes, placed, measure, room ?? WINDOW);
  placeLinks(scene, graph, measure);
  return scene;
}

function sizedPlan(
  graph: GraphModel,
  plan: Plan,
  direction: Direction,
  measure: Measure,
  options: SceneOptions,
): Sized {
  const { cards = true } = options;
  const card = cards === true ? cardIn(graph, plan) : cards === "signs" ? null : cards || null;
  // As signs alone where there are too many for cards.
  const isBoard = card !== null || ((cards === true || cards === "signs") && !graph.static);
  const planned: Planned = {
    graph,
    plan: isBoard ? withoutLabels(graph, plan, cardIn(graph, plan) !== null) : plan,
    direction,
    card,
    isBoard,
    copies: options.copies ?? false,
    lists: options.lists ?? false,
    narrow: options.narrow ?? false,
  };
  return sized(planned, measure, options);
}

/** The most that wider cards may change the height of a picture, as a share. */
const SAME_HEIGHT = 0.1;

/**
 * The scene of a board at the first level that is legible. Leaves are drawn once per use if the picture is illegible or
 * long lines run side by side otherwise. Small cards become narrower before they become signs. Cards of vectors are as
 * wide as lists of gradients if that stays legible.
 */
function bestLevel(
  card: CardSize,
  room: Room,
  hasVectors: boolean,
  bound: (level: Level) => number,
  make: (shown: Pick<SceneOptions, "cards" | "copies" | "lists" | "narrow">) => Scene,
): Scene {
  const last = room.derivatives ? "near" : "signs";
  for (let at = LEVELS.indexOf(card); ; at++) {
    const cards = LEVELS[at];
    const within = cards === "full" ? room : tallRoom(room);
    if (cards !== last && bound(cards) < LEGIBLE) continue;
    const isLegible = (scene: Scene) => fitView(scene, within).k >= LEGIBLE;
    const scene = make({ cards });
    const isSeen = isLegible(scene);
    if (cards !== "signs" && (!isSeen || hasRails(scene, room))) {
      const copied = make({ cards, copies: true });
      if (isLegible(copied) && !(isSeen && hasRails(copied, room))) return copied;
    }
    if (!isSeen && cards === "near") {
      const narrow = make({ cards, copies: true, narrow: true });
      if (isLegible(narrow)) return narrow;
    }
    if (!isSeen) {
      if (cards === last) return scene;
      continue;
    }
    if (cards !== "near" || !hasVectors) return scene;
    const wide = make({ cards, lists: true });
    // In as many rows as before.
    const isAlike = Math.abs(wide.height - scene.height) < SAME_HEIGHT * scene.height;
    return isAlike && isLegible(wide) ? wide : scene;
  }
}

/** The plan of a board. Its arrows have no labels: the tooltip names the operand. */
function withoutLabels(graph: GraphModel, plan: Plan, hidesSteps: boolean): Plan {
  const edges = plan.edges.map((edge) => ({ ...edge, argument: null }));
  return boardPlan(graph, { ...plan, edges }, hidesSteps);
}

/**
 * Remove the frames around single operations, which become plain nodes named after their modules. With `hidesSteps`,
 * remove the frames of loops' steps too.
 */
export function boardPlan(graph: GraphModel, plan: Plan, hidesSteps = false): Plan {
  const { nodes, frames } = plan;
  if (nodes.some(({ group }) => group)) return plan;
  const operations = new Int32Array(frames.length);
  for (const { id, frame } of nodes) {
    if (!isWork(graph.nodes[id])) continue;
    for (let f = frame; f >= 0; f = frames[f].parent) operations[f]++;
  }
  const isKept = (f: number) =>
    isBody(frames[f].path) || (operations[f] > 1 && !(hidesSteps && isStep(frames[f].path)));
  const kept = [...frames.keys()].filter(isKept);
  if (kept.length === frames.length) return plan;
  const at = new Map(kept.map((f, i) => [f, i]));
  /** The innermost outer frame that stays, and the outermost inner one that does not. */
  const around = (frame: number) => {
    let dropped = -1;
    let f = frame;
    for (; f >= 0 && !at.has(f); f = frames[f].parent) if (!isStep(frames[f].path)) dropped = f;
    return { frame: at.get(f) ?? -1, dropped };
  };
  return {
    ...plan,
    frames: kept.map((f) => ({ ...frames[f], parent: at.get(frames[f].parent) ?? -1 })),
    nodes: nodes.map((node) => {
      const { frame, dropped } = around(node.frame);
      const isOne = dropped >= 0 && isWork(graph.nodes[node.id]);
      return { ...node, frame, ...(isOne && { module: frames[dropped].path }) };
    }),
  };
}
