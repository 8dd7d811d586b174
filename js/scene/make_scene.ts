import { type Direction, isHorizontal, turn } from "../layout/direction";
import type { ContentCache } from "../layout/types";
import type { Measure } from "../text/measure";
import { oneLine } from "../text/shorten";
import type { GraphModel, NodeModel } from "../wire";
import { boardPlan } from "./board_plan";
import { boxWords, groupTitle } from "./box_words";
import { cardSize } from "./card";
import { isMarked } from "./checkpoints";
import type { Placement } from "./dock";
import { placeSigns } from "./edge_signs";
import { fittedTitle, type SceneFrame, titleWidth } from "./frame";
import { factsOf, fittedFacts } from "./frame_facts";
import { placeLabels } from "./labels";
import { gateShape, lensRoom, withLens } from "./lens";
import { placeLinks } from "./links";
import { drawnFor } from "./members";
import type { CardSize, NodeShape } from "./node_shape";
import { flagsOf, wordsOf } from "./node_words";
import { parametersIn } from "./parameters";
import { place } from "./place";
import type { Plan, Strip } from "./plan";
import { onlyOn, onlyTag, overRanks, roomForRanks } from "./rank_strip";
import { nameRows } from "./rows";
import type { Place, Scene, SceneNode } from "./scene";
import { sceneEdges } from "./scene_edges";
import { type BoxSize, shapeOf } from "./shape";
import { isWork, kindOfMerged } from "./shown_graph";
import { nameSkips, skipsIn } from "./skips";
import { edgesOnBars, placeStrip, stripShape } from "./strip";
import { roundOf } from "./tile";
import { fitView, type Room, type Size } from "./views";

interface SceneOptions {
  /** What the picture should fill: what is longer is wrapped, like text. Left out, it is drawn as long as it comes. */
  room?: Room | undefined;
  /** Contents of boxes laid out before. */
  cache?: ContentCache | undefined;
  /** The boxes and words of the picture's nodes, where they are known already. */
  shapes?: readonly NodeShape[];
  /** Whether small graphs are drawn as cards; or of which size. */
  cards?: boolean | CardSize;
}

/** Where large cards would be shown smaller than this, small ones say more. */
const LEAST_FULL = 0.84;

/** A window to look through, where it is not known, px. */
const WINDOW: Size = { width: 1200, height: 600 };

/** Between boxes these operations are signs in circles. */
const ROUND = /^[+×−]$/;

/** A leaf with more uses than this is drawn once per use; below, one node shows how gradients add up. */
export const MOST_USES_OF_ONE = 3;
/** The same on a board, where a leaf adds its shares up in rows. */
const MOST_USES_ON_BOARD = 8;

/** Lays a picture of a graph out and works out everything there is to draw. Does not touch the DOM. */
export function makeScene(
  graph: GraphModel,
  plan: Plan,
  direction: Direction,
  measure: Measure,
  options: SceneOptions = {},
): Scene {
  const horizontal = isHorizontal(direction);
  const { cards = true, room } = options;
  const card = cards === true ? cardIn(graph, plan) : cards || null;
  if (card === "full" && cards === true && room) {
    const full = makeScene(graph, plan, direction, measure, { ...options, cards: "full" });
    if (fitView(full, room).k >= LEAST_FULL) return full;
    return makeScene(graph, plan, direction, measure, { ...options, cards: "near" });
  }
  // On a board the arrows are not labelled: which operand is which is told by hovering.
  if (card) {
    const edges = plan.edges.map((edge) => ({ ...edge, argument: null }));
    plan = boardPlan(graph, { ...plan, edges });
  }
  const { nodes } = plan;
  const times = timesDrawn(graph, plan, cards !== false);
  const flags = flagsIn(graph, plan);
  const window = room ?? WINDOW;
  const shares = sharesOf(graph, plan, times);
  const { shapes = shapesOf(graph, plan, direction, measure, times, [], cards, shares, window) } =
    options;
  const placed = place({ graph, plan, shapes, times, direction, card }, measure, options);
  const at = turn(direction, placed.height);
  const frames = sceneFrames(graph, plan, placed, direction, measure);
  const isReversed = direction === "right" || direction === "down";
  /** Per node of the layout, the place of what is drawn for it. */
  const first = new Int32Array(placed.owner.length);
  const sceneNodes: SceneNode[] = [];
  placed.owner.forEach((owner, index) => {
    const { id, group, strip, gate, frame, said, also } = nodes[owner];
    const [x, y] = at(placed.x[index], placed.y[index]);
    const only = onlyOn(graph, nodes[owner]);
    const isTold = frames[frame]?.isTold;
    const lack = only ? { only, ...(isTold && { isTold }) } : {};
    const place = { x, y, rank: placed.rank[index], shape: shapes[owner], ...lack };
    first[index] = sceneNodes.length;
    if (strip) {
      const depth = frame < 0 ? 0 : frames[frame].depth + 1;
      const next = sceneNodes.length;
      const row = placeStrip(strip, place, next, horizontal, isReversed, depth, measure, window);
      for (const bar of row.bars) sceneNodes.push({ ...bar, index: sceneNodes.length });
      frames.push(row.frame);
      return;
    }
    sceneNodes.push({
      ...place,
      index: sceneNodes.length,
      id,
      leaf: isLeaf(graph, nodes[owner]),
      root: flags[owner].length > 0,
      copies: times[owner],
      ...(gate && { gate }),
      ...(said && { said }),
      ...(group ? { group } : quietPart(graph.nodes[id])),
      ...(also && { also }),
    });
  });
  const scene: Scene = {
    direction,
    isStatic: graph.static,
    width: horizontal ? placed.height : placed.width,
    height: horizontal ? placed.width : placed.height,
    nodes: sceneNodes,
    edges: sceneEdges(graph, plan, placed, shapes, direction, measure),
    drawn: drawnFor(sceneNodes, graph.nodes.length),
    frames,
    ...(plan.edgeOf ? { edgeOf: plan.edgeOf } : {}),
    ...(graph.ranks && { signs: tagsOf(sceneNodes) }),
  };
  nameRows(scene, graph);
  placeSigns(scene);
  placeLabels(scene, plan.edges, measure);
  nameSkips(scene, skipsIn(graph, plan), measure);
  if (!nodes.some(({ strip }) => strip)) {
    placeLinks(scene, graph, measure);
    return scene;
  }
  scene.edges = edgesOnBars(graph, plan, scene.edges, first, sceneNodes, horizontal);
  scene.edgeOf = plan.edgeOf?.slice() ?? new Int32Array(graph.edges.length).fill(-1);
  for (const { index, merged } of scene.edges.slice(plan.edges.length))
    for (const e of merged?.edges ?? []) scene.edgeOf[e] = index;
  const whole = (plan.lenses ?? []).reduce((around, lens) => {
    const inner = makeScene(graph, lens.plan, direction, measure, {
      cache: options.cache,
      cards,
      room: { ...window, ...lensRoom(around, window, horizontal) },
    });
    const strip = nodes[lens.strip].strip as Strip;
    const bar = around.nodes[first[lens.strip] + lens.block];
    return withLens(around, inner, lens, strip, bar, horizontal, measure);
  }, scene);
  placeLinks(whole, graph, measure);
  return whole;
}

/** The kind of a node that is none of autograd's, as a part of a `SceneNode`. */
export function quietPart({ kind }: NodeModel): Pick<SceneNode, "quiet"> {
  return kind === "op" || kind === "leaf" || kind === "call" ? {} : { quiet: kind };
}

function isLeaf(graph: GraphModel, { id, group, gate }: Plan["nodes"][number]): boolean {
  return !group && !gate && graph.nodes[id].kind === "leaf";
}

/** Per node of the plan, how often it is drawn: a leaf that many use, once per use. */
export function timesDrawn(graph: GraphModel, { nodes, edges }: Plan, cards = true): Int32Array {
  const uses = new Int32Array(nodes.length);
  for (const edge of edges) uses[edge.target]++;
  const isBoard = cards && cardIn(graph, { nodes }) !== null;
  const most = isBoard ? MOST_USES_ON_BOARD : MOST_USES_OF_ONE;
  return uses.map((used, i) => (isLeaf(graph, nodes[i]) && used > most ? used : 1));
}

/** The boxes and words of all nodes of the picture; each box at least as large as the given one, if any. */
export function shapesOf(
  graph: GraphModel,
  plan: Plan,
  direction: Direction,
  measure: Measure,
  times: ArrayLike<number> = timesDrawn(graph, plan),
  least: readonly BoxSize[] = [],
  cards: boolean | CardSize = true,
  shares: ArrayLike<number> = sharesOf(graph, plan, times),
  room = WINDOW,
): NodeShape[] {
  const flags = flagsIn(graph, plan);
  const card = cards === true ? cardIn(graph, plan) : cards || null;
  const hasBoxes = plan.nodes.some(({ group }) => group);
  const isParameter = parametersIn(graph);
  const over = overRanks(graph);
  return plan.nodes.map((node, i) => {
    const { id, group, strip, gate } = node;
    if (strip) return stripShape(strip, isHorizontal(direction), measure, room);
    if (gate) return gateShape(gate, measure);
    const { sign } = graph.nodes[id];
    if (hasBoxes && !group && flags[i].length === 0 && ROUND.test(sign ?? "")) {
      const after = (node.also ?? []).map((other) => graph.nodes[other].sign).join(" · ");
      return roundOf(sign ?? "", after || null, measure);
    }
    const words = group
      ? boxWords(graph, group, isParameter, flags[i], measure)
      : {
          ...wordsOf(
            graph.nodes[id],
            flags[i],
            times[i],
            measure,
            isMarked(graph, graph.nodes[id]),
          ),
          shares: shares[i],
        };
    if (node.module !== undefined) words.name ??= nameFrom(graph, node.module, words.sign);
    // Between boxes an operation is but a sign.
    const isSign = card && hasBoxes && !group && isWork(graph.nodes[id]) && !words.flag;
    if (isSign) Object.assign(words, { title: words.sign ?? words.title, shape: null });
    const about = group ? group.leaves : [id];
    words.hasStrip = !isSign && about.some((one) => over.has(one));
    const only = isSign ? null : onlyOn(graph, node);
    const wide = roomForRanks(graph, words.hasStrip, only);
    const { width = 0, height = 0 } = least[i] ?? {};
    const shape = shapeOf(
      words,
      isLeaf(graph, node),
      isHorizontal(direction),
      measure,
      { width: Math.max(width, wide), height },
      group || isSign ? null : card,
    );
    return isSign ? { ...shape, sign: "plain" } : shape;
  });
}

/** Where the signs are that say which ranks have a node. */
function tagsOf(nodes: readonly SceneNode[]): Place[] {
  return nodes.flatMap(({ x, y, shape, only, isTold }) => {
    if (only === undefined || isTold || shape.sign) return [];
    const tag = onlyTag(shape, only);
    return [{ ...tag, x: x + tag.x, y: y + tag.y }];
  });
}

/** What an operation alone in its module is called by it, unless that is what it does. */
function nameFrom(
  graph: GraphModel,
  module: string,
  sign: string | null | undefined,
): string | null {
  const name = oneLine(groupTitle(module, graph));
  return name === sign ? null : name;
}

/** How the nodes of a picture are drawn as cards, if they are; beside boxes small. */
function cardIn(graph: GraphModel, { nodes }: Pick<Plan, "nodes">): CardSize | null {
  const size = cardSize(nodes.length, graph.static);
  return size && nodes.some(({ group }) => group) ? "near" : size;
}

/** Per node of the plan, how many gradients are added up at it. */
export function sharesOf(graph: GraphModel, plan: Plan, times: ArrayLike<number>): Int32Array {
  const shares = new Int32Array(plan.nodes.length);
  for (const { target, edges } of plan.edges)
    if (times[target] === 1 && kindOfMerged(graph, edges) === "gradient") shares[target]++;
  return shares;
}

/** Per node of the plan, what the flags of the outputs in it say. */
function flagsIn(graph: GraphModel, { nodes, nodeOf }: Plan): (readonly string[])[] {
  const none: readonly string[] = [];
  const found = nodes.map(() => none);
  for (const [id, flags] of flagsOf(graph)) {
    const at = nodeOf ? nodeOf[id] : id;
    if (at >= 0) found[at] = [...found[at], ...flags];
  }
  return found;
}

function sceneFrames(
  graph: GraphModel,
  plan: Plan,
  { boxes, height }: Placement,
  direction: Direction,
  measure: Measure,
): SceneFrame[] {
  const at = turn(direction, height);
  const depth: number[] = [];
  const facts = plan.frames.length > 0 ? factsOf(graph, plan) : [];
  const told: boolean[] = [];
  return plan.frames.map(({ path, parent }, i) => {
    depth.push(parent < 0 ? 0 : depth[parent] + 1);
    const [ax, ay] = at(boxes.left[i], boxes.top[i]);
    const [bx, by] = at(boxes.left[i] + boxes.width[i], boxes.top[i] + boxes.height[i]);
    const [left, right] = [Math.min(ax, bx), Math.max(ax, bx)];
    const isAround = told[parent] === true;
    const only = isAround ? null : facts[i].only;
    const own = { ...facts[i], only };
    const words = fittedFacts(own, titleWidth(graph, path, measure), right - left, measure);
    const says = only !== null && words.some(({ text }) => text.startsWith(only)) ? only : null;
    told.push(isAround || says !== null);
    return {
      path,
      title: fittedTitle(graph, path, right - left, measure),
      facts: words,
      ...(says !== null && { says }),
      ...(told[i] && { isTold: true }),
      depth: depth[i],
      left,
      right,
      top: Math.min(ay, by),
      bottom: Math.max(ay, by),
    };
  });
}
