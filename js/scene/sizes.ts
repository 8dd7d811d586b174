import { type Direction, isHorizontal } from "../layout/direction";
import type { Measure } from "../text/measure";
import { oneLine } from "../text/shorten";
import type { GraphModel, NodeModel } from "../wire";
import { boxWords, groupTitle } from "./box_words";
import { cardSize } from "./card";
import { isMarked } from "./checkpoints";
import type { CardSize, NodeShape } from "./node_shape";
import { flagsOf, hasNoValues, type NodeWords, wordsOf } from "./node_words";
import { parametersIn } from "./parameters";
import type { Plan, PlanNode } from "./plan";
import { onlyOn, overRanks, roomForRanks } from "./rank_strip";
import { type BoxSize, shapeOf } from "./shape";
import { isWork, kindOfMerged } from "./shown_graph";
import { stripShape } from "./strip";
import { roundOf } from "./tile";
import type { Size } from "./views";

/** The window if its size is unknown, px. */
export const WINDOW: Size = { width: 1200, height: 600 };

/** Operations that are signs in circles between boxes. */
const ROUND = /^[+×−]$/;

/** The most uses of a leaf that is drawn once; then one node shows how gradients add up. */
export const MOST_USES_OF_ONE = 3;
/** The same on a board, where a leaf has a row for each use. */
const MOST_USES_ON_BOARD = 8;

/** A picture with known nodes and edges, before its sizes. */
export interface Planned {
  graph: GraphModel;
  plan: Plan;
  direction: Direction;
  /** The size of its cards; null where nodes are not cards. */
  card: CardSize | null;
  /** Whether it is drawn as on a board: with cards or, if there are too many, with signs. */
  isBoard: boolean;
  /** Whether a leaf with several uses is drawn once per use, even as a card. */
  copies?: boolean;
  /** Whether small cards of vectors have room for lists of gradients. */
  lists?: boolean;
  /** Whether the gradients of small cards have room for three digits, not four. */
  narrow?: boolean;
}

/** The width of a small card's gradient with four digits, "−0.01234", px. */
const FOUR_DIGITS = 62;
/** The room for the mark of a sum before them, px. */
const SUM_MARK = 14;

/** The most numbers of a gradient for whose list a card is made wider. */
const MOST_LISTED = 3;
/** A number of such a list. */
const LISTED = "\u22120.00";
/** Beside it, px. */
const LIST_PAD = 12;

/** A picture with known sizes, before its layout. */
export interface Sized extends Planned {
  shapes: readonly NodeShape[];
  /** Per node of the plan, how often it is drawn. */
  times: Int32Array;
}

interface ShapeOptions {
  times: ArrayLike<number>;
  /** Per node of the plan, its number of contributions. */
  shares: ArrayLike<number>;
  /** The boxes' least sizes. */
  least?: readonly BoxSize[];
  /** The window to fill. */
  room?: Size | undefined;
}

/** Return the size of the cards of a picture, small beside boxes; null if nodes are not drawn as cards. */
export function cardIn(graph: GraphModel, { nodes }: Pick<Plan, "nodes">): CardSize | null {
  const size = cardSize(nodes.length, graph.static);
  return size && nodes.some(({ group }) => group) ? "near" : size;
}

/** Whether a picture is of cards alone, without closed boxes. */
export function isOfCards({ card, plan }: Pick<Planned, "card" | "plan">): boolean {
  return card !== null && !plan.nodes.some(({ group }) => group);
}

/** Add the sizes to a planned picture, or use the known ones. */
export function sized(
  planned: Planned,
  measure: Measure,
  { shapes, room }: { shapes?: readonly NodeShape[] | undefined; room?: Size | undefined },
): Sized {
  const times = timesDrawn(planned);
  const shares = sharesOf(planned, times);
  return {
    ...planned,
    times,
    shapes: shapes ?? shapesOf(planned, measure, { times, shares, room }),
  };
}

/** Per node of the plan, how often it is drawn: a leaf with many uses, once per use. */
export function timesDrawn({
  graph,
  plan,
  card,
  copies,
}: Pick<Planned, "graph" | "plan" | "card" | "copies">): Int32Array {
  const { nodes, edges } = plan;
  const uses = new Int32Array(nodes.length);
  for (const edge of edges) uses[edge.target]++;
  const most = card && !copies ? MOST_USES_ON_BOARD : MOST_USES_OF_ONE;
  return uses.map((used, i) => (isLeaf(graph, nodes[i]) && used > most ? used : 1));
}

/** Per node of the plan, its number of contributions. */
export function sharesOf(
  { graph, plan }: Pick<Planned, "graph" | "plan">,
  times: ArrayLike<number>,
): Int32Array {
  const shares = new Int32Array(plan.nodes.length);
  for (const { target, edges } of plan.edges)
    if (times[target] === 1 && kindOfMerged(graph, edges) === "gradient") shares[target]++;
  return shares;
}

/** Per node of the plan, its box and its words. */
export function shapesOf(
  { graph, plan, direction, card, isBoard, lists = false, narrow = false }: Planned,
  measure: Measure,
  { times, shares, least = [], room = WINDOW }: ShapeOptions,
): NodeShape[] {
  const flags = flagsIn(graph, plan);
  const hasBoxes = plan.nodes.some(({ group }) => group);
  const isParameter = parametersIn(graph);
  const over = overRanks(graph);
  /** Whether operations are drawn as their signs alone: between boxes, and where there are too many for cards. */
  const asSigns = isBoard && (hasBoxes || !card);
  /** Leaves and outputs among signs are cards. */
  const cards = card ?? (isBoard ? "near" : null);
  const hasModules = graph.nodes.some(({ namespace }) => namespace);
  const labelled = flags.findIndex((own) => own.length > 0);
  return plan.nodes.map((node, i) => {
    const { id, strip, module } = node;
    // An operation of a module that is called in several places looks like a box of it.
    const group =
      node.group ?? (hasBoxes && module ? { paths: [module], members: [id], leaves: [] } : null);
    if (strip) return stripShape(strip, isHorizontal(direction), measure, room);
    const { sign } = graph.nodes[id];
    if ((hasBoxes || asSigns) && !group && flags[i].length === 0 && ROUND.test(sign ?? "")) {
      const after = (node.also ?? []).map((other) => graph.nodes[other].sign).join(" · ");
      return roundOf(sign ?? "", after || null, measure);
    }
    const words = group
      ? boxWords(graph, group, isParameter, flags[i], measure)
      : {
          ...wordsOf(
            hasModules ? withoutData(withSign(graph, node)) : withSign(graph, node),
            flags[i],
            times[i],
            measure,
            isMarked(graph, graph.nodes[id]),
          ),
          shares: shares[i],
          onlyShapes: hasNoValues(graph),
          inBackward: graph.nodes[id].in_backward,
        };
    if (module && !group) words.name ??= nameFrom(graph, module, words.sign);
    const isSign =
      asSigns && !group && isWork(graph.nodes[id]) && !words.flag && (card || !over.has(id));
    if (isSign) Object.assign(words, signWords(words, hasBoxes && isHorizontal(direction)));
    const about = group ? group.leaves : [id];
    words.isCaptioned = hasBoxes;
    words.isLabelled = flags[i].length > 0 && i === labelled;
    words.hasStrip = !isSign && about.some((one) => over.has(one));
    const only = isSign ? null : onlyOn(graph, node);
    const listed =
      lists && isShortVector(graph.nodes[id]) ? listWidth(graph.nodes[id], measure) : 0;
    const digits = FOUR_DIGITS + (times[i] > 1 ? SUM_MARK : 0);
    words.gradRoom = Math.max(listed, card === "near" && !hasBoxes && !narrow ? digits : 0);
    const wide = roomForRanks(graph, words.hasStrip, only);
    const { width = 0, height = 0 } = least[i] ?? {};
    const shape = shapeOf(
      words,
      isLeaf(graph, node),
      direction,
      measure,
      { width: Math.max(width, wide), height },
      group || isSign ? null : cards,
    );
    return isSign || group !== node.group ? { ...shape, sign: "plain" } : shape;
  });
}

/** Whether a node gets a gradient whose list its card can have room for. */
export function isShortVector({ kind, shape }: NodeModel): boolean {
  if (kind !== "leaf" && kind !== "op") return false;
  return shape?.length === 1 && shape[0] > 1 && shape[0] <= MOST_LISTED;
}

/** The width of a small card with a list of two digits per number. */
function listWidth({ shape }: NodeModel, measure: Measure): number {
  const numbers = Array.from({ length: shape?.[0] ?? 0 }, () => LISTED);
  return Math.ceil(measure(`[${numbers.join(", ")}]`, "digits")) + LIST_PAD;
}

/** The words of an operation that is drawn as its sign; in a row of boxes its sizes, "2×2 /2", in a second line. */
function signWords(
  { sign, title }: NodeWords,
  isTall: boolean,
): Pick<NodeWords, "title" | "shape"> {
  const [, word, rest] = (isTall && /^(\D+) (\d.*)$/.exec(sign ?? "")) || [];
  return word ? { title: word, shape: rest } : { title: sign ?? title, shape: null };
}

/** A node with the sign of all that is drawn with it: a log softmax and its likelihood are a cross entropy. */
function withSign({ nodes }: GraphModel, { id, also = [] }: PlanNode): NodeModel {
  const node = nodes[id];
  const isEntropy = node.sign !== null && also.some((one) => /^LogSoftmax/.test(nodes[one].op));
  return isEntropy ? { ...node, sign: "cross entropy" } : node;
}

/** The most numbers that are written in a card beside modules: data says less than its shape there. */
const MOST_DATA = 4;

/** A node without its value if that is more than a few numbers. */
function withoutData(node: NodeModel): NodeModel {
  const count = (node.shape ?? []).reduce((product, size) => product * size, 1);
  return count > MOST_DATA && !node.numberInputs ? { ...node, value: null } : node;
}

/** Per node of the plan, the flags of its outputs. */
export function flagsIn(graph: GraphModel, { nodes, nodeOf }: Plan): (readonly string[])[] {
  const none: readonly string[] = [];
  const found = nodes.map(() => none);
  for (const [id, flags] of flagsOf(graph)) {
    const at = nodeOf ? nodeOf[id] : id;
    if (at >= 0) found[at] = [...found[at], ...flags];
  }
  return found;
}

export function isLeaf(graph: GraphModel, { id, group }: PlanNode): boolean {
  return !group && graph.nodes[id].kind === "leaf";
}

/** Name an operation after its module if it is alone there and its name does not describe it. */
function nameFrom(
  graph: GraphModel,
  module: string,
  sign: string | null | undefined,
): string | null {
  const name = oneLine(groupTitle(module, graph));
  return name === sign ? null : name;
}
