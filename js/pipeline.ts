import type { Folding } from "./fold/folding";
import { foldedPlan, type GroupedGraph } from "./fold/grouped_graph";
import type { Direction } from "./layout/direction";
import type { ContentCache } from "./layout/types";
import { drawn } from "./scene/curves";
import { placeLinks } from "./scene/links";
import { isBody, isStep } from "./scene/module_class";
import type { CardSize, NodeShape } from "./scene/node_shape";
import { place } from "./scene/place";
import type { Plan } from "./scene/plan";
import { hasRails } from "./scene/portals";
import type { Scene } from "./scene/scene";
import { isWork } from "./scene/shown_graph";
import { cardIn, isShortVector, type Planned, sized, WINDOW } from "./scene/sizes";
import { fitView, LEGIBLE, type Room, tallRoom } from "./scene/views";
import type { Measure } from "./text/measure";
import type { GraphModel } from "./wire";

// From a graph to its scene:
//
//   fold ► scene (sizes ► layout ► curves) ► paint
//
// Every stage is a function of what the stage before returned. None touches the DOM, so that a worker and an engine
// without a page can run them. `Painting` paints the scene.

interface SceneOptions {
  /** The window to fill: longer pictures are wrapped. By default nothing is wrapped. */
  room?: Room | undefined;
  /** Laid-out contents of boxes. */
  cache?: ContentCache | undefined;
  /** The nodes' sizes, if known. */
  shapes?: readonly NodeShape[];
  /** Whether small graphs are drawn as cards, or how. */
  cards?: boolean | Level;
  /** Whether a leaf with several uses on a board is drawn once per use. */
  copies?: boolean;
  /** Whether cards of vectors have room for lists of gradients. */
  lists?: boolean;
}

/** How much a board shows: the next level is taken where the one before is illegible. */
type Level = CardSize | "signs";
const LEVELS: readonly Level[] = ["full", "near", "signs"];

/** Make the scene of a graph in one folding. */
export function foldedScene(
  grouped: GroupedGraph,
  folding: Folding,
  direction: Direction,
  measure: Measure,
  options: Omit<SceneOptions, "shapes"> = {},
): Scene {
  const plan = foldedPlan(grouped, folding);
  return makeScene(grouped.graph, plan, direction, measure, { room: WINDOW, ...options });
}

export function makeScene(
  graph: GraphModel,
  plan: Plan,
  direction: Direction,
  measure: Measure,
  options: SceneOptions = {},
): Scene {
  const { cards = true, room } = options;
  const card = cards === true ? cardIn(graph, plan) : cards === "signs" ? null : cards || null;
  if (card && cards === true && room && !plan.nodes.some(({ group }) => group))
    return bestLevel(
      card,
      room,
      plan.nodes.some(({ id }) => isShortVector(graph.nodes[id])),
      (shown) => makeScene(graph, plan, direction, measure, { ...options, ...shown }),
    );
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
  };
  const withSizes = sized(planned, measure, options);
  const placed = place(withSizes, measure, options);
  const scene = drawn(withSizes, placed, measure, room ?? WINDOW);
  placeLinks(scene, graph, measure);
  return scene;
}

/** The most that wider cards may change the height of a picture, as a share. */
const SAME_HEIGHT = 0.1;

/**
 * The scene of a board at the first level that is legible. Leaves are drawn once per use if long lines run side by side
 * otherwise. Small cards of vectors are as wide as lists of gradients if that stays legible.
 */
function bestLevel(
  card: CardSize,
  room: Room,
  hasVectors: boolean,
  make: (shown: Pick<SceneOptions, "cards" | "copies" | "lists">) => Scene,
): Scene {
  const last = room.derivatives ? "near" : "signs";
  for (let at = LEVELS.indexOf(card); ; at++) {
    const cards = LEVELS[at];
    const within = cards === "full" ? room : tallRoom(room);
    const isLegible = (scene: Scene) => fitView(scene, within).k >= LEGIBLE;
    const scene = make({ cards });
    if (!isLegible(scene)) {
      if (cards === last) return scene;
      continue;
    }
    if (cards !== "signs" && hasRails(scene, room)) {
      const copied = make({ cards, copies: true });
      if (isLegible(copied) && !hasRails(copied, room)) return copied;
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
