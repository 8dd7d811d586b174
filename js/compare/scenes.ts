import { boardPlan, makeScene } from "../arrange/pipeline";
import { deepest, wholeFolding } from "../fold/folding";
import { foldedPlan, type GroupedGraph, groupedGraph } from "../fold/grouped_graph";
import { pathTo } from "../fold/tree";
import type { Direction } from "../layout/direction";
import { listsBy } from "../maps";
import { layoutsOf, MOST_CHOOSING, MOST_DRAFTING } from "../place/layouts";
import { cardSize, MOST_CARDS } from "../scene/card";
import { quietPart } from "../scene/curves";
import type { Place } from "../scene/grid";
import { labelled } from "../scene/labels";
import { placeLinks } from "../scene/links";
import { drawnFor, edgePart, edgesOf } from "../scene/members";
import type { NodeShape } from "../scene/node_shape";
import { flatPlan, type Plan } from "../scene/plan";
import { tagSize } from "../scene/rank_strip";
import type { EdgeLabel, Scene, SceneEdge, SceneNode } from "../scene/scene";
import type { BoxSize } from "../scene/shape";
import { kindOfMerged } from "../scene/shown_graph";
import { shapesOf, sharesOf, timesDrawn } from "../scene/sizes";
import { findUses } from "../scene/uses";
import { fitView, LARGEST_FIT, LEGIBLE, type Size } from "../scene/views";
import type { Measure } from "../text/measure";
import { onlyWords, type Pane, type United } from "./united";

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

/** A node with a small sign. */
interface Tagged {
  node: SceneNode;
  tag: EdgeLabel;
}

/** How far the coloured ground of an unshared node reaches beyond its box, px. */
export const HALO = 7;
/** How much larger a board must become for a direction other than left to right. */
const PREFERRED = 1.15;

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
  options: PaneOptions = {},
): PaneScene[] {
  const grouped = groupedGraph(united.slots);
  const layouts = layoutsOf(united.slots);
  layouts.begin(MOST_CHOOSING);
  const scenesOf = (plan: Plan) =>
    layouts.atMost(MOST_DRAFTING, () =>
      planScenes(united, plan, { ...options, direction, measure, room }),
    );
  const at = (levels: number) => scenesOf(foldedTo(grouped, united, levels, options));
  const most = deepest(grouped.tree);
  const whole = areCards(united) ? boardPlan(united.slots, planOf(grouped)) : planOf(grouped);
  const isSmall = united.slots.nodes.length <= MOST_CARDS;
  let best = isSmall ? scenesOf(whole) : at(most);
  if (!room || (best[0]?.scene.nodes.length ?? 0) > MOST_TRIED) return best;
  // Fewer levels until the names are legible.
  const scale = ([first]: PaneScene[]) => (first ? fitView(first.scene, room).k : 0);
  for (let levels = most; levels >= 0 && scale(best) < LEGIBLE; levels--) {
    const next = at(levels);
    if (scale(next) > scale(best)) best = next;
  }
  return best;
}

interface PlanOptions extends PaneOptions {
  direction: Direction;
  measure: Measure;
  room: Size | undefined;
}

/** The parts of a plan of all graphs. */
function planScenes(
  united: United,
  together: Plan,
  { direction, measure, room, signs = new Map() }: PlanOptions,
): PaneScene[] {
  const { slots, panes } = united;
  const isBoard = panes.every(({ graph }) => !graph.static);
  const card = isBoard && cardSize(together.nodes.length, false) ? "near" : null;
  const times = timesDrawn({ graph: slots, plan: together, card });
  const shares = sharesOf({ graph: slots, plan: together }, times);
  const parts = panes.map((_, p) => partOf(united, p, together));
  const shapesFor = ({ graph }: Pane, p: number, least: readonly BoxSize[]): NodeShape[] => {
    const uses = new Int32Array(graph.nodes.length);
    for (const edge of graph.edges) uses[edge.target]++;
    const { plan, of } = parts[p];
    const options = {
      times: plan.nodes.map(({ id }, i) => (times[of[i]] > 1 ? uses[id] : 1)),
      shares: of.map((i) => shares[i]),
      least: least.length > 0 ? of.map((i) => least[i]) : [],
    };
    return shapesOf({ graph, plan, direction, card, isBoard }, measure, options);
  };
  const count = together.nodes.length;
  const alone = panes.map((pane, p) => shapesFor(pane, p, []));
  const box = largest(count, parts, alone, (shape) => [shape.width, shape.height]);
  const shapes = panes.map((pane, p) => shapesFor(pane, p, box));
  const outer = largest(count, parts, shapes, (shape) => [shape.outerWidth, shape.outerHeight]);
  const largestOf = together.nodes.map((_, i): NodeShape => {
    const p = parts.findIndex(({ at }) => at[i] >= 0);
    const { width: outerWidth, height: outerHeight } = outer[i];
    return { ...shapes[p][parts[p].at[i]], outerWidth, outerHeight };
  });
  const isFolded = together.nodes.some(({ group }) => group);
  const scene = makeScene(slots, together, direction, measure, {
    shapes: largestOf,
    cards: card ?? isBoard,
    ...((card || isFolded) && { room }),
  });
  const shared = { united, together, scene, alike: alikeEdges(united), measure, signs };
  return panes.map((_, p) => paneScene(shared, p, { ...parts[p], shapes: shapes[p] }));
}

export interface PaneOptions {
  /** Words for signs at places. */
  signs?: ReadonlyMap<number, string>;
  /** Paths of boxes that the reader opened. */
  opened?: ReadonlySet<string>;
}

/** The nodes of the common plan that one graph has. */
interface Part {
  /** In the graph's own numbers. */
  plan: Plan;
  /** Per node of that plan, its index in the common one, and the other way round; -1 for none. */
  of: number[];
  at: Int32Array;
}

function partOf({ slotMembers, panes, slot }: United, p: number, together: Plan): Part {
  const { graph, place } = panes[p];
  const own = (slots: readonly number[]) => slots.flatMap((one) => slotMembers[one][p] ?? []);
  const of: number[] = [];
  const at = new Int32Array(together.nodes.length).fill(-1);
  const nodes = together.nodes.flatMap((node, i): Plan["nodes"] => {
    const { group, also, inSign } = node;
    const [id] = own(group ? group.members : [node.id]);
    if (id === undefined) return [];
    at[i] = of.push(i) - 1;
    const ownGroup = group && {
      ...group,
      members: own(group.members),
      leaves: own(group.leaves),
    };
    return [
      {
        ...node,
        id,
        group: ownGroup,
        ...(also && { also: own(also) }),
        ...(inSign && { inSign: own(inSign) }),
      },
    ];
  });
  const nodeOf = Int32Array.from(graph.nodes, ({ id }) => {
    const one = slot[place[id]];
    const drawn = one < 0 ? -1 : together.nodeOf ? together.nodeOf[one] : one;
    return drawn < 0 ? -1 : at[drawn];
  });
  return { plan: { ...flatPlan(graph), nodes, nodeOf }, of, at };
}

/** The most drawn boxes for which both directions are tried. */
const MOST_TRIED = 200;

/** The direction that shows cards or boxes largest: left to right unless another is much larger. */
export function bestFlow(
  united: United,
  measure: Measure,
  room: Size,
  options: PaneOptions = {},
): Direction {
  if (!areCards(united)) {
    const grouped = groupedGraph(united.slots);
    const { nodes } = foldedTo(grouped, united, deepest(grouped.tree), options);
    if (nodes.length > MOST_TRIED) return "down";
  }
  const scale = (direction: Direction) => {
    const [first] = paneScenes(united, direction, measure, room, options);
    return first ? fitView(first.scene, room).k : 0;
  };
  const left = scale("left") * PREFERRED;
  return left >= LARGEST_FIT || left >= scale("down") ? "left" : "down";
}

/** The plan of all nodes, with their modules as open boxes. */
function planOf(grouped: GroupedGraph): Plan {
  const { tree, graph } = grouped;
  return tree.path.length > 1 ? foldedPlan(grouped, wholeFolding(tree)) : flatPlan(graph);
}

/** The plan in which modules without a difference are closed, and others below some levels; opened ones are open. */
function foldedTo(
  grouped: GroupedGraph,
  united: United,
  levels: number,
  { signs = new Map(), opened = new Set() }: PaneOptions,
): Plan {
  const { tree, graph } = grouped;
  if (tree.path.length === 1) return flatPlan(graph);
  const open = new Set<string>();
  const shown = new Set<number>();
  const openTo = (paths: readonly string[]) => {
    for (const path of paths.slice(0, levels)) open.add(path);
  };
  united.members.forEach((of, place) => {
    const slot = united.slot[place];
    if (slot < 0 || !(of.includes(null) || signs.has(place))) return;
    shown.add(slot);
    openTo(pathTo(tree, slot));
  });
  alikeEdges(united).forEach((alike, e) => {
    const { source, target } = graph.edges[e];
    const inside = new Set(pathTo(tree, source));
    // Both ends in one box: it opens, so that the edge is seen.
    if (!alike) openTo(pathTo(tree, target).filter((path) => inside.has(path)));
  });
  for (const path of opened)
    for (let end = path.length; end > 0; end = path.lastIndexOf("/", end - 1))
      open.add(path.slice(0, end)); // and the boxes around it
  return foldedPlan(grouped, {
    ...{
      open,
      byOne: new Set<string>(),
      peek: [],
      hidesPlumbing: true,
      unfolded: shown,
      foldsRepeats: false,
    },
  });
}

/** The frames that contain a node of this graph. */
function framesWith({ nodes, frames }: Plan, shown: readonly number[]): Uint8Array {
  const shows = new Uint8Array(frames.length);
  for (const i of shown) {
    for (let f = nodes[i].frame; f >= 0 && !shows[f]; f = frames[f].parent) shows[f] = 1;
  }
  return shows;
}

function largest(
  count: number,
  parts: readonly Part[],
  shapes: readonly NodeShape[][],
  sizeOf: (shape: NodeShape) => [number, number],
): BoxSize[] {
  return Array.from({ length: count }, (_, i) => {
    const size = { width: 0, height: 0 };
    parts.forEach(({ at }, p) => {
      if (at[i] < 0) return;
      const [width, height] = sizeOf(shapes[p][at[i]]);
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

/** What all parts of a common picture share. */
interface Together {
  united: United;
  together: Plan;
  scene: Scene;
  /** Per edge between slots, whether all graphs have it at the same places. */
  alike: readonly boolean[];
  measure: Measure;
  signs: ReadonlyMap<number, string>;
}

type PartsOf = (edge: SceneEdge) => number[];

function paneScene(
  common: Together,
  p: number,
  part: Part & { shapes: readonly NodeShape[] },
): PaneScene {
  const { united, together, scene: whole, alike, measure } = common;
  const { graph, edge: slotEdge } = united.panes[p];
  const ownEdges = listsBy(slotEdge.keys(), (e) => slotEdge[e]);
  const partsOf: PartsOf = (edge) => edgesOf(edge).flatMap((slot) => ownEdges.get(slot) ?? []);
  const { nodes, index, filled, ghosts, only, noted } = paneNodes(common, p, part, partsOf);
  const { edges, ghostEdges, edgeOf } = paneEdges(common, p, index, partsOf);
  clearRows(nodes, edges);
  const shows = framesWith(together, filled);
  const drawn = drawnFor(nodes, graph.nodes.length);
  const frames = whole.frames.filter((_, f) => shows[f] === 1);
  const signs = [...only, ...noted].map(({ tag }) => tag);
  const own = { isStatic: graph.static, frames, nodes, edges, edgeOf, drawn, signs };
  const scene: Scene = { ...whole, ...own };
  findUses(scene);
  placeLinks(scene, graph, measure);
  const onlyEdges = edges.filter((edge) => edgesOf(edge).some((e) => !alike[slotEdge[e]]));
  return { scene, ghosts, ghostEdges, only, noted, onlyEdges };
}

/** The nodes of one graph, and the places that only others fill. */
function paneNodes(
  { united, together, scene: whole, signs }: Together,
  p: number,
  { plan, at: partAt, shapes }: Part & { shapes: readonly NodeShape[] },
  partsOf: PartsOf,
) {
  const { graph, place } = united.panes[p];
  // A leaf may have one copy per use; keep the copies that this graph uses.
  const used = new Set(
    whole.edges.flatMap((edge) => (partsOf(edge).length > 0 ? edge.target : [])),
  );
  const roots = new Set(graph.roots.map((root) => root.node));
  /** Per node of the common picture, its index here; -1 for none. */
  const index = new Int32Array(whole.nodes.length).fill(-1);
  const nodes: SceneNode[] = [];
  const filled: number[] = [];
  const ghosts: SceneNode[] = [];
  const only: Tagged[] = [];
  const noted: Tagged[] = [];
  for (const at of whole.nodes) {
    const drawnAs = together.nodeOf ? together.nodeOf[at.id] : at.id;
    const own = partAt[drawnAs];
    if (own < 0 || (at.copies > 1 && !used.has(at.index))) {
      ghosts.push(at);
      continue;
    }
    const { quiet: _, group: _g, also: _a, inSign: _s, use: _u, isCopy: _c, ...where } = at;
    const { id, group, also, inSign } = plan.nodes[own];
    const node: SceneNode = {
      ...where,
      index: nodes.length,
      id,
      leaf: !group && graph.nodes[id].kind === "leaf",
      root: (group?.members ?? [id]).some((one) => roots.has(one)),
      shape: shapes[own],
      ...(group ? { group } : quietPart(graph.nodes[id])),
      ...(also && { also }),
      ...(inSign && { inSign }),
    };
    index[at.index] = nodes.length;
    filled.push(drawnAs);
    nodes.push(node);
    const words = group ? differenceWords(united, at) : onlyWords(united.members[place[id]]);
    const sign = group ? words : (signs.get(place[id]) ?? words);
    if (sign !== null)
      (words === null ? noted : only).push({ node, tag: tagAt(node, sign, whole.nodes) });
  }
  return { nodes, index, filled, ghosts, only, noted };
}

/** The edges of one graph, and those that only others have. */
function paneEdges(
  { united, scene: whole, measure }: Together,
  p: number,
  index: Int32Array,
  partsOf: PartsOf,
) {
  const { graph } = united.panes[p];
  const edges: SceneEdge[] = [];
  const ghostEdges: SceneEdge[] = [];
  const edgeOf = new Int32Array(graph.edges.length).fill(-1);
  for (const edge of whole.edges) {
    const parts = partsOf(edge);
    if (parts.length === 0) {
      ghostEdges.push(edge);
      continue;
    }
    const { quiet: _q, merged, ...where } = edge;
    for (const e of parts) edgeOf[e] = edges.length;
    const [first, ...more] = parts;
    edges.push({
      ...where,
      index: edges.length,
      source: index[edge.source],
      target: index[edge.target],
      label: more.length > 0 ? edge.label : labelled(edge.label, graph.edges[first], measure),
      merged: {
        ...{ count: parts.length, tensors: 1, signs: [], ...merged },
        edges: parts,
        folded: (merged?.folded ?? []).flatMap((slot) => united.slotMembers[slot][p] ?? []),
      },
      ...edgePart(kindOfMerged(graph, parts)),
    });
  }
  return { edges, ghostEdges, edgeOf };
}

/** The number of nodes in a closed box that some graphs lack, in words; null for none. */
function differenceWords({ slotMembers }: United, { group }: SceneNode): string | null {
  const differing = group?.members.filter((slot) => slotMembers[slot].includes(null)) ?? [];
  return differing.length > 0 ? `${differing.length} differ` : null;
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
function tagAt(node: SceneNode, text: string, all: readonly SceneNode[]): EdgeLabel {
  const { x, y, shape } = node;
  const { width, height } = tagSize(text);
  const right = Math.max(x + shape.width / 2 + 12, x + 8 + width);
  const bottom = y + shape.height / 2 + shape.outline + HALO;
  const tag = { text, x: right - width / 2, y: bottom, width, height };
  if (all.length > MOST_CARDS) return tag;
  const isFree = all.every((other) => (other.x === x && other.y === y) || !touches(tag, other));
  return isFree ? tag : { ...tag, x: x + shape.width / 2 + HALO - width / 2 };
}

/** Whether a tag comes closer to a box than the box's ground would. */
function touches({ x, y, width, height }: Place, { x: at, y: high, shape }: SceneNode): boolean {
  const near = HALO + 1;
  return (
    Math.abs(x - at) < (width + shape.width) / 2 + near &&
    Math.abs(y - high) < (height + shape.height) / 2 + near
  );
}
