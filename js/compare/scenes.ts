import { wholeFolding } from "../fold/folding";
import { foldedPlan, groupedGraph } from "../fold/grouped_graph";
import type { Direction } from "../layout/direction";
import { boardPlan, makeScene } from "../pipeline";
import { cardSize, MOST_CARDS } from "../scene/card";
import { quietPart } from "../scene/curves";
import { labelled } from "../scene/labels";
import { placeLinks } from "../scene/links";
import { edgePart } from "../scene/members";
import type { NodeShape } from "../scene/node_shape";
import { flatPlan, type Plan } from "../scene/plan";
import type { Place, Scene, SceneEdge, SceneNode } from "../scene/scene";
import type { BoxSize } from "../scene/shape";
import { shapesOf, sharesOf, timesDrawn } from "../scene/sizes";
import { fitView, type Size } from "../scene/views";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import { type Members, onlyWords, type Pane, type United } from "./united";

/** One laid-out graph of a comparison. Shared places lie at the same position in every graph. */
export interface PaneScene {
  scene: Scene;
  /** Laid-out slots that only other graphs fill. */
  ghosts: SceneNode[];
  ghostEdges: SceneEdge[];
  only: Tagged[];
  /** Nodes of all graphs with a note. */
  noted: Tagged[];
  onlyEdges: SceneEdge[];
}

interface Tagged {
  node: SceneNode;
  tag: Tag;
}

/** A small sign with words. */
export interface Tag extends Place {
  words: string;
}

/** How far the coloured ground of an unshared node reaches beyond its box, px. */
export const HALO = 7;
const TAG_HEIGHT = 14;
/** How much larger a board must become for a direction other than left to right. */
const PREFERRED = 1.15;
/** The width of a tag: px per character, and px for both ends. */
const CHARACTER = 5.4;
const TAG_ENDS = 10;

/** Whether graphs are compared as cards, as on boards. */
export function areCards({ slots, panes }: United): boolean {
  return (
    cardSize(slots.nodes.length, slots.static) !== null && panes.every(({ graph }) => !graph.static)
  );
}

/** Lay out all graphs as one and return each graph's part. `room` is one part's space. Does not touch the DOM. */
export function paneScenes(
  united: United,
  direction: Direction,
  measure: Measure,
  room?: Size,
  signs: ReadonlyMap<number, string> = new Map(),
): PaneScene[] {
  const { slots, slotMembers, panes } = united;
  const card = areCards(united) ? "near" : null;
  const slotOf = panes.map((pane) => pane.place.map((place) => united.slot[place]));
  const whole = planOf(slots);
  const together = card ? boardPlan(slots, whole) : whole;
  const times = timesDrawn({ graph: slots, plan: together, card });
  const shares = sharesOf({ graph: slots, plan: together }, times);
  const shapesFor = ({ graph }: Pane, p: number, least: readonly BoxSize[]): NodeShape[] => {
    const uses = new Int32Array(graph.nodes.length);
    for (const edge of graph.edges) uses[edge.target]++;
    const drawn = uses.map((count, node) => (times[slotOf[p][node]] > 1 ? count : 1));
    const flat = flatPlan(graph);
    const nodes = flat.nodes.map((node, i) => {
      const { module } = together.nodes[slotOf[p][i]];
      return module === undefined ? node : { ...node, module };
    });
    const rows = slotOf[p].subarray(0, nodes.length).map((slot) => shares[slot]);
    const plan = { ...flat, nodes };
    const options = { times: drawn, shares: rows, least };
    return shapesOf({ graph, plan, direction, card, isBoard: card !== null }, measure, options);
  };
  const alone = panes.map((pane, p) => shapesFor(pane, p, []));
  const box = largest(slotMembers, alone, (shape) => [shape.width, shape.height]);
  const shapes = panes.map((pane, p) =>
    shapesFor(
      pane,
      p,
      Array.from(slotOf[p], (slot) => box[slot]),
    ),
  );
  const outer = largest(slotMembers, shapes, (shape) => [shape.outerWidth, shape.outerHeight]);
  const largestOf = slotMembers.map((of, slot): NodeShape => {
    const p = of.findIndex((node) => node !== null);
    const { width: outerWidth, height: outerHeight } = outer[slot];
    return { ...shapes[p][of[p] ?? 0], outerWidth, outerHeight };
  });
  const scene = makeScene(slots, together, direction, measure, {
    shapes: largestOf,
    cards: card ?? false,
    ...(card && { room }),
  });
  const alike = alikeEdges(united);
  return panes.map((_, p) =>
    paneScene(united, p, together, scene, shapes[p], alike, measure, signs),
  );
}

/** The direction that shows cards largest: left to right unless another is much larger. */
export function bestFlow(united: United, measure: Measure, room: Size): Direction {
  if (!areCards(united)) return "down";
  const scale = (direction: Direction) => {
    const [first] = paneScenes(united, direction, measure, room);
    return first ? fitView(first.scene, room).k : 0;
  };
  return scale("left") * PREFERRED >= scale("down") ? "left" : "down";
}

/** The plan of all slots, with their modules as boxes. */
function planOf(slots: GraphModel): Plan {
  const grouped = groupedGraph(slots);
  const { tree } = grouped;
  return tree.path.length > 1 ? foldedPlan(grouped, wholeFolding(tree)) : flatPlan(slots);
}

/** The frames that contain a node of this graph. */
function framesWith({ nodes, frames }: Plan, slots: readonly SceneNode[]): Uint8Array {
  const shows = new Uint8Array(frames.length);
  for (const { id } of slots) {
    for (let f = nodes[id].frame; f >= 0 && !shows[f]; f = frames[f].parent) shows[f] = 1;
  }
  return shows;
}

function largest(
  members: Members,
  shapes: readonly NodeShape[][],
  sizeOf: (shape: NodeShape) => [number, number],
): BoxSize[] {
  return members.map((of) => {
    const size = { width: 0, height: 0 };
    of.forEach((node, p) => {
      if (node === null) return;
      const [width, height] = sizeOf(shapes[p][node]);
      size.width = Math.max(size.width, width);
      size.height = Math.max(size.height, height);
    });
    return size;
  });
}

/** Whether all graphs have this edge between slots at the same places. */
function alikeEdges({ panes, slots }: United): boolean[] {
  const held = new Map<number, Set<string>>();
  const count = new Int32Array(slots.edges.length);
  for (const { graph, edge, place } of panes) {
    graph.edges.forEach(({ source, target }, i) => {
      const ends = held.get(edge[i]) ?? new Set();
      held.set(edge[i], ends.add(`${place[source]} ${place[target]}`));
      count[edge[i]]++;
    });
  }
  return slots.edges.map((_, i) => count[i] === panes.length && held.get(i)?.size === 1);
}

function paneScene(
  united: United,
  p: number,
  plan: Plan,
  whole: Scene,
  shapes: readonly NodeShape[],
  alike: readonly boolean[],
  measure: Measure,
  signs: ReadonlyMap<number, string>,
): PaneScene {
  const { graph, place, edge: slotEdge } = united.panes[p];
  const drawnAs = slotEdge.map((slot) => plan.edgeOf?.[slot] ?? slot);
  const own = new Set(drawnAs);
  // A leaf may have one copy per use; keep the copies that this graph uses.
  const used = new Set(Array.from(own, (edge) => whole.edges[edge].target));
  const roots = new Set(graph.roots.map((root) => root.node));
  const drawn: number[][] = graph.nodes.map(() => []);
  const index = new Int32Array(whole.nodes.length).fill(-1);
  const nodes: SceneNode[] = [];
  const filled: SceneNode[] = [];
  const ghosts: SceneNode[] = [];
  const only: Tagged[] = [];
  const noted: Tagged[] = [];
  for (const at of whole.nodes) {
    const id = united.slotMembers[at.id][p];
    if (id === null || (at.copies > 1 && !used.has(at.index))) {
      ghosts.push(at);
      continue;
    }
    const { quiet: _, ...where } = at;
    const node: SceneNode = {
      ...where,
      index: nodes.length,
      id,
      leaf: graph.nodes[id].kind === "leaf",
      root: roots.has(id),
      shape: shapes[id],
      ...quietPart(graph.nodes[id]),
    };
    index[at.index] = nodes.length;
    filled.push(at);
    drawn[id].push(nodes.length);
    nodes.push(node);
    const words = onlyWords(united.members[place[id]]);
    const sign = signs.get(place[id]) ?? words;
    if (sign !== null)
      (words === null ? noted : only).push({ node, tag: tagAt(node, sign, whole.nodes) });
  }
  const edges = Array.from(drawnAs, (at, i): SceneEdge => {
    const { quiet: _q, merged: _m, ...edge } = whole.edges[at];
    const label = labelled(edge.label, graph.edges[i], measure);
    const [source, target] = [index[edge.source], index[edge.target]];
    return { ...edge, label, index: i, source, target, ...edgePart(graph.edges[i].kind) };
  });
  clearRows(nodes, edges);
  const shows = framesWith(plan, filled);
  const { edgeOf: _, ...rest } = whole;
  const scene: Scene = {
    ...rest,
    isStatic: graph.static,
    frames: whole.frames.filter((_, f) => shows[f] === 1),
    nodes,
    edges,
    drawn,
    signs: [...only, ...noted].map(({ tag }) => tag),
  };
  placeLinks(scene, graph, measure);
  return {
    scene,
    ghosts,
    ghostEdges: whole.edges.filter((edge) => !own.has(edge.index)),
    only,
    noted,
    onlyEdges: edges.filter((_, i) => !alike[slotEdge[i]]),
  };
}

/** Clear the words of rows that no edge of this graph enters. */
function clearRows(nodes: SceneNode[], edges: readonly SceneEdge[]): void {
  const taken = new Set(edges.map(({ target, row }) => `${target} ${row}`));
  for (const node of nodes)
    if (node.rows)
      node.rows = node.rows.map((words, row) => (taken.has(`${node.index} ${row}`) ? words : ""));
}

/**
 * Place a tag at the bottom right of a box, away from edges and from the step on its top. On a board, where boxes are
 * close, it stays above its own ground if it would touch another box.
 */
function tagAt(node: SceneNode, words: string, all: readonly SceneNode[]): Tag {
  const { x, y, shape } = node;
  const width = CHARACTER * words.length + TAG_ENDS;
  const right = Math.max(x + shape.width / 2 + 12, x + 8 + width);
  const bottom = y + shape.height / 2 + shape.outline + HALO;
  const tag = { words, x: right - width / 2, y: bottom, width, height: TAG_HEIGHT };
  if (all.length > MOST_CARDS) return tag;
  const isFree = all.every((other) => (other.x === x && other.y === y) || !touches(tag, other));
  return isFree ? tag : { ...tag, x: x + shape.width / 2 + HALO - width / 2 };
}

/** Whether a tag comes closer to a box than the box's ground would. */
function touches({ x, y, width, height }: Tag, { x: at, y: high, shape }: SceneNode): boolean {
  const near = HALO + 1;
  return (
    Math.abs(x - at) < (width + shape.width) / 2 + near &&
    Math.abs(y - high) < (height + shape.height) / 2 + near
  );
}
