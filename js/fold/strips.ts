import { groupTitle } from "../scene/box_words";
import { regionOf, regionWords } from "../scene/checkpoints";
import { isBody, isStep } from "../scene/module_class";
import type { ModuleParameters } from "../scene/parameters";
import type { ClosedGroup, Gate, Lens, Plan, PlanEdge, PlanNode, Strip } from "../scene/plan";
import { oneLine } from "../text/shorten";
import type { GraphModel } from "../wire";
import { closedBoxes, type Visible } from "./reduce";
import { type GroupTree, lastPart } from "./tree";

/** The inputs of a plan with strips, besides the visible graph. */
interface Modules {
  graph: GraphModel;
  tree: GroupTree;
  /** Per group, its class, null if unknown. */
  kind: readonly (string | null)[];
  parameters: ModuleParameters;
}

/** The most open blocks of a strip; with more, blocks are shown one by one. */
const MOST_LENSES = 2;

/** The repeated blocks to draw as strips: visible, with few open blocks. Groups, in order. */
export function stripsIn(
  tree: GroupTree,
  runs: readonly (readonly number[])[],
  open: ReadonlySet<string>,
): (readonly number[])[] {
  if (runs.length === 0) return [];
  const closed = closedBoxes(tree, open);
  return runs.filter((run) => {
    if (closed[tree.parent[run[0]]] >= 0) return false;
    return run.reduce((count, g) => count + (open.has(tree.path[g]) ? 1 : 0), 0) <= MOST_LENSES;
  });
}

/** A visible node's place in a picture: itself, a block of a strip, or outside. */
interface Spot {
  strip: number;
  block: number;
}

/**
 * Plan a picture with strips, and one picture for each open block. A picture's home is the whole graph or such a block.
 * Linear in nodes and edges.
 */
export function plansOf(
  grouped: Modules,
  visible: Visible,
  strips: readonly (readonly number[])[],
  open: ReadonlySet<string>,
): Plan {
  return new StripPlanner(grouped, visible, strips, open).plan();
}

class StripPlanner {
  /** Per block of a strip, its spot. */
  private readonly spots = new Map<number, Spot>();
  /** Per group, its home group. */
  private readonly home: Int32Array;
  private readonly drafts = new Map<number, Draft>();
  private readonly members: readonly (readonly number[])[];

  constructor(
    private readonly grouped: Modules,
    private readonly visible: Visible,
    private readonly strips: readonly (readonly number[])[],
    private readonly open: ReadonlySet<string>,
  ) {
    const { tree } = grouped;
    strips.forEach((run, strip) => {
      run.forEach((g, block) => {
        this.spots.set(g, { strip, block });
      });
    });
    this.home = new Int32Array(tree.path.length);
    for (let g = 1; g < this.home.length; g++)
      this.home[g] = this.isHome(g) ? g : this.home[tree.parent[g]];
    this.members = membersOf(visible);
  }

  plan(): Plan {
    const { visible, drafts } = this;
    for (const h of new Set([0, ...this.home])) drafts.set(h, new Draft());
    // In the order of their first graph nodes, so that little moves when something opens.
    visible.nodes.forEach((_, v) => {
      for (let h = this.homeOf(v); h >= 0; h = this.outer(h)) {
        const spot = this.spotIn(h, v);
        if (spot) drafts.get(h)?.block(spot, h === this.homeOf(v) ? v : null);
        else drafts.get(h)?.node(v);
      }
    });
    visible.edges.forEach((edge, e) => {
      const { source, target } = edge;
      const seen = new Set<number>();
      for (const end of [source, target])
        for (let h = this.homeOf(end); h >= 0 && !seen.has(h); h = this.outer(h)) {
          seen.add(h);
          drafts.get(h)?.edge(e, edge, this.place(h, source), this.place(h, target));
        }
    });
    return this.planOf(0);
  }

  private isHome(g: number): boolean {
    return g === 0 || (this.spots.has(g) && this.open.has(this.grouped.tree.path[g]));
  }

  private outer(h: number): number {
    return h === 0 ? -1 : this.home[this.grouped.tree.parent[h]];
  }

  private homeOf(v: number): number {
    return this.home[this.visible.nodes[v].container];
  }

  /** A visible node's block, in the picture of a home that contains the node. */
  private spotIn(h: number, v: number): Spot | null {
    if (this.homeOf(v) === h) return this.spots.get(this.visible.nodes[v].group) ?? null;
    let at = this.homeOf(v);
    while (this.outer(at) !== h) at = this.outer(at);
    return this.spots.get(at) ?? null;
  }

  private isWithin(h: number, v: number): boolean {
    for (let at = this.homeOf(v); at >= 0; at = this.outer(at)) if (at === h) return true;
    return false;
  }

  /** A visible node's block, in the innermost picture that contains both the node and the home. */
  private spotAround(h: number, v: number): Spot | null {
    let around = this.outer(h);
    while (!this.isWithin(around, v)) around = this.outer(around);
    return this.spotIn(around, v);
  }

  private place(h: number, v: number): Place {
    if (this.isWithin(h, v)) return { v, spot: this.spotIn(h, v), gate: null };
    const spot = this.spotAround(h, v);
    return { v, spot: null, gate: spot ? `${spot.strip} ${spot.block}` : `${v}` };
  }

  private planOf(h: number): Plan {
    const { tree } = this.grouped;
    const draft = this.drafts.get(h) as Draft;
    const containers = this.containersOf(draft);
    const isAlone = this.aloneIn(h, draft, containers);
    const within = containers.map((g, i) => (isAlone[i] ? tree.parent[g] : g));
    const boxes = boxesAround(within, tree, h);
    const lenses: Lens[] = [];
    const nodes = draft.items.map((item, i): PlanNode => {
      const frame = boxes.box[i];
      if (item.gate) return { ...this.gateNode(h, item), frame: -1 };
      if (item.strip === null) return { ...this.plainNode(item.v), frame };
      this.strips[item.strip].forEach((g, block) => {
        if (this.isHome(g)) lenses.push(this.lensOf(g, i, block));
      });
      const path = tree.path[containers[i]];
      return { ...this.stripNode(draft, item.strip, path, isAlone[i]), frame };
    });
    const frames = Array.from(boxes.group, (g, i) => ({
      path: tree.path[g],
      parent: boxes.boxParent[i],
    }));
    const more = lenses.length > 0 && { lenses };
    return { nodes, frames, nodeOf: this.nodeOf(nodes), ...this.edgesOf(draft, nodes), ...more };
  }

  /** Per item of a draft, its group; -1 for a gate. */
  private containersOf(draft: Draft): number[] {
    return draft.items.map(({ v, strip, gate }): number => {
      if (gate) return -1;
      if (strip === null) return this.visible.nodes[v].container;
      return this.grouped.tree.parent[this.strips[strip][0]];
    });
  }

  /** Per item, whether it is a strip alone in its group, which it then replaces. */
  private aloneIn(h: number, draft: Draft, containers: readonly number[]): boolean[] {
    const { tree } = this.grouped;
    const inside = new Int32Array(tree.path.length);
    for (const container of containers)
      for (let g = container; g > 0 && g !== h; g = tree.parent[g]) inside[g]++;
    return draft.items.map(({ strip }, i) => {
      const container = containers[i];
      return strip !== null && container > 0 && container !== h && inside[container] === 1;
    });
  }

  private plainNode(v: number): Omit<PlanNode, "frame"> {
    const { node, group, also } = this.visible.nodes[v];
    if (group >= 0) return { id: node, group: this.closedGroup(group, this.members[v]) };
    const said = this.members[v].filter((id) => id !== node && !also?.includes(id));
    return { id: node, group: null, ...(said.length > 0 && { said }), ...(also && { also }) };
  }

  private stripNode(
    draft: Draft,
    strip: number,
    path: string,
    isAlone: boolean,
  ): Omit<PlanNode, "frame"> {
    const { tree } = this.grouped;
    const run = this.strips[strip];
    const blocks = run.map((g, block) =>
      this.blockOf(g, draft.blocks.get(`${strip} ${block}`) ?? null),
    );
    const members = blocks.flatMap(({ group }) => group.members);
    return {
      id: blocks[0].id,
      group: { paths: run.map((g) => tree.path[g]), members, leaves: [] },
      strip: { path, isAlone, ...this.titleOf(run), blocks, links: draft.links(strip) },
    };
  }

  private nodeOf(nodes: readonly PlanNode[]): Int32Array {
    const nodeOf = new Int32Array(this.grouped.graph.nodes.length).fill(-1);
    nodes.forEach(({ id, group, gate, said = [], also = [] }, i) => {
      if (!gate) for (const v of group?.members ?? [id, ...also, ...said]) nodeOf[v] = i;
    });
    return nodeOf;
  }

  private edgesOf(draft: Draft, nodes: readonly PlanNode[]): Pick<Plan, "edges" | "edgeOf"> {
    const { graph } = this.grouped;
    const edgeOf = new Int32Array(graph.edges.length).fill(-1);
    const inOrder = draft.edges.sort((a, b) => a.edges[0] - b.edges[0]);
    const edges = inOrder.map((edge, i) => {
      for (const e of edge.edges) edgeOf[e] = i;
      const { group, gate } = nodes[edge.source];
      const isPlain = edge.count === 1 && group === null && !gate;
      return { ...edge, argument: isPlain ? graph.edges[edge.edges[0]].argument : null };
    });
    return { edges, edgeOf };
  }

  private lensOf(g: number, strip: number, block: number): Lens {
    const { tree, kind, parameters } = this.grouped;
    return {
      path: tree.path[g],
      kind: kind[g],
      leaves: parameters.leaves[g],
      numbers: parameters.numbers[g],
      strip,
      block,
      plan: this.planOf(g),
    };
  }

  private closedGroup(g: number, of: readonly number[]): ClosedGroup {
    const { tree, parameters } = this.grouped;
    return { paths: [tree.path[g]], members: of, leaves: parameters.leaves[g] };
  }

  private blockOf(g: number, v: number | null) {
    const { tree } = this.grouped;
    const name = /\d+$/.exec(tree.path[g])?.[0] ?? "";
    if (v !== null)
      return { id: this.visible.nodes[v].node, group: this.closedGroup(g, this.members[v]), name };
    const inside = nodesIn(tree, g);
    return { id: inside[0], group: { ...this.closedGroup(g, inside), isOpen: true }, name };
  }

  private titleOf(run: readonly number[]): Pick<Strip, "title" | "kind" | "each" | "again"> {
    const { graph, tree, kind, parameters } = this.grouped;
    const { numbers } = parameters;
    const [first] = run;
    const stem = lastPart(tree.path[first]).replace(/\s*\d+$/, "");
    const around = tree.path[tree.parent[first]];
    const last = lastPart(tree.path[run[run.length - 1]]);
    const title = stem || lastPart(around) || `${lastPart(tree.path[first])} … ${last}`;
    // The steps of a loop share their parameters.
    const isEven = !isStep(tree.path[first]) && run.every((g) => numbers[g] === numbers[first]);
    const region = regionOf(graph, tree.path[first]);
    const isAgain = run.every((g) => regionOf(graph, tree.path[g])?.saves === region?.saves);
    return {
      title,
      kind: kind[first],
      each: isEven ? numbers[first] : null,
      again: region && isAgain ? regionWords(region) : null,
    };
  }

  /** A lens' node for something outside. */
  private gateNode(h: number, { v, isSource, edges }: Item): Omit<PlanNode, "frame"> {
    const { graph, tree } = this.grouped;
    const spot = this.spotAround(h, v);
    const group = spot ? this.strips[spot.strip][spot.block] : this.visible.nodes[v].group;
    const { node } = this.visible.nodes[v];
    const called = group < 0 ? nameOf(graph, node) : groupTitle(tree.path[group]);
    const gate: Gate = {
      isSource,
      title: `${isSource ? "from" : "to"} ${called}`,
      carries: carriedBy(graph, this.visible, edges),
    };
    return { id: node, group: group < 0 ? null : { ...this.closedGroup(group, []) }, gate };
  }
}

interface Place {
  v: number;
  spot: Spot | null;
  /** Its key among the gates, for an outside node. */
  gate: string | null;
}

/** A node of a picture in the making. */
interface Item {
  /** The visible node, or one of several. */
  v: number;
  strip: number | null;
  gate: string | null;
  isSource: boolean;
  /** The visible edges through a gate. */
  edges: number[];
}

type Line = Pick<PlanEdge, "source" | "target" | "count"> & { edges: number[]; folded: number[] };

/** A picture under construction. */
class Draft {
  readonly items: Item[] = [];
  readonly edges: Line[] = [];
  /** The visible node of each block, null for an open one. */
  readonly blocks = new Map<string, number | null>();
  private readonly at = new Map<string, number>();
  private readonly merged = new Map<string, Line>();
  private readonly between = new Map<number, Map<string, Line>>();

  node(v: number): number {
    return this.item(`${v}`, { v, strip: null, gate: null });
  }

  block({ strip, block }: Spot, v: number | null): number {
    this.blocks.set(`${strip} ${block}`, v);
    return this.strip(strip);
  }

  /** Add a visible edge, unless both its ends are in one block. */
  edge(e: number, line: Visible["edges"][number], source: Place, target: Place): void {
    const [from, to] = [source.spot, target.spot];
    if (from && to && from.strip === to.strip) {
      // A strip only has room for edges between neighbouring blocks.
      if (Math.abs(from.block - to.block) === 1) this.link(from, to, line);
      return;
    }
    const ends = [this.end(source, true), this.end(target, false)];
    for (const end of ends) if (this.items[end].gate !== null) this.items[end].edges.push(e);
    const isMerged = ends.some((end) => this.items[end].gate ?? this.items[end].strip !== null);
    const found = isMerged ? this.merged.get(ends.join(" ")) : undefined;
    if (found) add(found, line);
    else {
      const made = add({ source: ends[0], target: ends[1], count: 0, edges: [], folded: [] }, line);
      this.edges.push(made);
      this.merged.set(ends.join(" "), made);
    }
  }

  links(strip: number): Line[] {
    return [...(this.between.get(strip)?.values() ?? [])];
  }

  private link(from: Spot, to: Spot, line: Visible["edges"][number]): void {
    const known = this.between.get(from.strip) ?? new Map<string, Line>();
    this.between.set(from.strip, known);
    const key = `${from.block} ${to.block}`;
    const empty = { source: from.block, target: to.block, count: 0, edges: [], folded: [] };
    known.set(key, add(known.get(key) ?? empty, line));
  }

  private end({ v, spot, gate }: Place, isSource: boolean): number {
    if (spot) return this.strip(spot.strip);
    if (gate === null) return this.node(v);
    return this.item(`${isSource ? "from" : "to"} ${gate}`, { v, strip: null, gate, isSource });
  }

  private strip(strip: number): number {
    return this.item(`strip ${strip}`, { v: -1, strip, gate: null });
  }

  private item(key: string, item: Omit<Item, "isSource" | "edges"> & { isSource?: boolean }) {
    let found = this.at.get(key);
    if (found === undefined) {
      found = this.items.push({ isSource: false, ...item, edges: [] }) - 1;
      this.at.set(key, found);
    }
    return found;
  }
}

function add(to: Line, { count, edges, folded }: Visible["edges"][number]): Line {
  to.count += count;
  for (const e of edges) to.edges.push(e);
  for (const v of folded) to.folded.push(v);
  return to;
}

function membersOf({ nodes, nodeOf }: Visible): number[][] {
  const members: number[][] = nodes.map(() => []);
  nodeOf.forEach((at, v) => {
    if (at >= 0) members[at].push(v);
  });
  return members;
}

/** The graph nodes in a group and its subgroups, in order. */
function nodesIn({ groupOf, parent }: GroupTree, group: number): number[] {
  const lies = new Uint8Array(parent.length);
  for (let g = group; g < lies.length; g++) lies[g] = g === group || lies[parent[g]] ? 1 : 0;
  return Array.from(groupOf.keys()).filter((v) => lies[groupOf[v]] === 1);
}

/** The gradient on these visible edges, if all carry the same one. */
function carriedBy(
  { edges, nodes }: GraphModel,
  visible: Visible,
  passing: readonly number[],
): Gate["carries"] {
  const ends = passing.flatMap((i) => {
    const { edges: parts, target } = visible.edges[i];
    return parts.filter(
      (e) => edges[e].kind === "gradient" && visible.nodeOf[edges[e].target] === target,
    );
  });
  const targets = new Set(ends.map((e) => edges[e].target));
  const [node] = targets;
  if (targets.size !== 1) return null;
  const all = edges.reduce((count, { target }) => count + (target === node ? 1 : 0), 0);
  if (all === ends.length && nodes[node].kind !== "leaf") return { node };
  return ends.length === 1 ? { edge: ends[0] } : null;
}

/** The name of an outside node in a lens. */
function nameOf({ nodes }: GraphModel, id: number): string {
  const { name, namespace, sign, label } = nodes[id];
  return oneLine(name ?? (namespace ? groupTitle(namespace) : (sign ?? label)));
}

/** The open groups with visible content as boxes for a nested layout; groups of a single node have none. */
interface Boxes {
  group: Int32Array;
  /** Per box, the box around it; -1 for none. */
  boxParent: Int32Array;
  /** Per visible node, the box that it lies in; -1 for none. */
  box: Int32Array;
}

/**
 * Find the boxes around nodes, parents first. `containers` are the nodes' open groups, -1 for none; `top` is the
 * outermost group, which has no box.
 */
export function boxesAround(containers: readonly number[], tree: GroupTree, top = 0): Boxes {
  const shows = new Uint8Array(tree.path.length);
  for (const container of containers) {
    for (let g = container; g > 0 && g !== top && !shows[g]; g = tree.parent[g])
      if (hasFrame(g, tree)) shows[g] = 1;
  }
  const boxOf = new Int32Array(tree.path.length).fill(-1);
  const group = Int32Array.from(shows.keys()).filter((g) => shows[g] === 1);
  group.forEach((g, b) => {
    boxOf[g] = b;
  });
  return {
    group,
    boxParent: group.map((g) => boxOf[tree.parent[g]]),
    box: Int32Array.from(containers, (container) =>
      container < 0 ? -1 : boxOf[drawnAround(container, tree)],
    ),
  };
}

/** A single node's group has a frame only if the frame shows when it runs. */
function hasFrame(group: number, { size, path }: GroupTree): boolean {
  return size[group] > 1 || isBody(path[group]);
}

/** The innermost group with a box around a group's content. */
function drawnAround(group: number, tree: GroupTree): number {
  let g = group;
  while (g > 0 && !hasFrame(g, tree)) g = tree.parent[g];
  return g;
}
