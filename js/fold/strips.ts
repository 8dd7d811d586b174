import { valueAt } from "../maps";
import { againWords } from "../scene/checkpoints";
import { isBody, isStep } from "../scene/module_class";
import type { ModuleParameters } from "../scene/parameters";
import type { ClosedGroup, Plan, PlanEdge, PlanNode, Strip } from "../scene/plan";
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

/** Fewer closed blocks in a row are boxes. */
const FEWEST_BLOCKS = 2;

/** The repeated blocks to draw as strips: closed, and between open ones. Groups, in order. */
export function stripsIn(
  tree: GroupTree,
  runs: readonly (readonly number[])[],
  open: ReadonlySet<string>,
): (readonly number[])[] {
  if (runs.length === 0) return [];
  const closed = closedBoxes(tree, open);
  return runs.flatMap((run) => {
    if (closed[tree.parent[run[0]]] >= 0) return [];
    const parts: number[][] = [[]];
    for (const g of run) {
      if (open.has(tree.path[g])) parts.push([]);
      else parts[parts.length - 1].push(g);
    }
    return parts.filter(({ length }) => length >= FEWEST_BLOCKS);
  });
}

/** A block's place: its strip, and its index there. */
interface Spot {
  strip: number;
  block: number;
}

/** Plan a picture with strips. Linear in nodes and edges. */
export function planOf(
  grouped: Modules,
  visible: Visible,
  strips: readonly (readonly number[])[],
): Plan {
  return new StripPlanner(grouped, visible, strips).plan();
}

class StripPlanner {
  /** Per block of a strip, its spot. */
  private readonly spots = new Map<number, Spot>();
  private readonly draft = new Draft();
  private readonly members: readonly (readonly number[])[];

  constructor(
    private readonly grouped: Modules,
    private readonly visible: Visible,
    private readonly strips: readonly (readonly number[])[],
  ) {
    strips.forEach((run, strip) => {
      run.forEach((g, block) => {
        this.spots.set(g, { strip, block });
      });
    });
    this.members = membersOf(visible);
  }

  plan(): Plan {
    const { visible, draft } = this;
    const { tree } = this.grouped;
    // In the order of their first graph nodes, so that little moves when something opens.
    visible.nodes.forEach((_, v) => {
      const spot = this.spotOf(v);
      if (spot) draft.block(spot, v);
      else draft.node(v);
    });
    for (const edge of visible.edges)
      draft.edge(edge, this.spotOf(edge.source), this.spotOf(edge.target));
    const containers = this.containers();
    const isAlone = this.aloneIn(containers);
    const within = containers.map((g, i) => (isAlone[i] ? tree.parent[g] : g));
    const boxes = boxesAround(within, tree);
    const nodes = draft.items.map(({ v, strip }, i): PlanNode => {
      const made =
        strip === null
          ? this.plainNode(v)
          : this.stripNode(strip, tree.path[containers[i]], isAlone[i]);
      return { ...made, frame: boxes.box[i] };
    });
    const frames = Array.from(boxes.group, (g, i) => ({
      path: tree.path[g],
      parent: boxes.boxParent[i],
    }));
    return { nodes, frames, nodeOf: this.nodeOf(nodes), ...this.edgesOf(nodes) };
  }

  private spotOf(v: number): Spot | null {
    return this.spots.get(this.visible.nodes[v].group) ?? null;
  }

  /** Per item of the draft, its group. */
  private containers(): number[] {
    const { tree } = this.grouped;
    return this.draft.items.map(({ v, strip }) =>
      strip === null ? this.visible.nodes[v].container : tree.parent[this.strips[strip][0]],
    );
  }

  /** Per item, whether it is a strip alone in its group, which it then replaces. */
  private aloneIn(containers: readonly number[]): boolean[] {
    const { tree } = this.grouped;
    const inside = new Int32Array(tree.path.length);
    for (const container of containers)
      for (let g = container; g > 0; g = tree.parent[g]) inside[g]++;
    return this.draft.items.map(
      ({ strip }, i) => strip !== null && containers[i] > 0 && inside[containers[i]] === 1,
    );
  }

  private plainNode(v: number): Omit<PlanNode, "frame"> {
    const { node, group, also } = this.visible.nodes[v];
    if (group >= 0) return { id: node, group: this.closedGroup(group, v) };
    const said = this.members[v].filter((id) => id !== node && !also?.includes(id));
    return { id: node, group: null, ...(said.length > 0 && { said }), ...(also && { also }) };
  }

  private stripNode(strip: number, path: string, isAlone: boolean): Omit<PlanNode, "frame"> {
    const { graph, tree } = this.grouped;
    const run = this.strips[strip];
    const blocks = run.map((g, block) => {
      const v = this.draft.blocks.get(`${strip} ${block}`) as number;
      const name = /\d+$/.exec(tree.path[g])?.[0] ?? "";
      const isAgain = againWords(graph, tree.path[g]) !== null;
      return { id: this.visible.nodes[v].node, group: this.closedGroup(g, v), name, isAgain };
    });
    const members = blocks.flatMap(({ group }) => group.members);
    return {
      id: blocks[0].id,
      group: { paths: run.map((g) => tree.path[g]), members, leaves: [] },
      strip: { path, isAlone, ...this.titleOf(run), blocks, links: this.draft.links(strip) },
    };
  }

  private nodeOf(nodes: readonly PlanNode[]): Int32Array {
    const nodeOf = new Int32Array(this.grouped.graph.nodes.length).fill(-1);
    nodes.forEach(({ id, group, said = [], also = [] }, i) => {
      for (const v of group?.members ?? [id, ...also, ...said]) nodeOf[v] = i;
    });
    return nodeOf;
  }

  private edgesOf(nodes: readonly PlanNode[]): Pick<Plan, "edges" | "edgeOf"> {
    const { graph } = this.grouped;
    const edgeOf = new Int32Array(graph.edges.length).fill(-1);
    const inOrder = this.draft.edges.sort((a, b) => a.edges[0] - b.edges[0]);
    const edges = inOrder.map((edge, i) => {
      for (const e of edge.edges) edgeOf[e] = i;
      const isPlain = edge.count === 1 && nodes[edge.source].group === null;
      return { ...edge, argument: isPlain ? graph.edges[edge.edges[0]].argument : null };
    });
    return { edges, edgeOf };
  }

  private closedGroup(g: number, v: number): ClosedGroup {
    const { tree, parameters } = this.grouped;
    return { paths: [tree.path[g]], members: this.members[v], leaves: parameters.leaves[g] };
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
    const again = againWords(graph, tree.path[first]);
    const isAgain = run.every((g) => againWords(graph, tree.path[g]) === again);
    return {
      title,
      kind: kind[first],
      each: isEven ? numbers[first] : null,
      again: isAgain ? again : null,
    };
  }
}

/** A node of the picture: a visible node, or a strip. */
interface Item {
  v: number;
  strip: number | null;
}

type Line = Pick<PlanEdge, "source" | "target" | "count"> & { edges: number[]; folded: number[] };

/** A picture under construction. */
class Draft {
  readonly items: Item[] = [];
  readonly edges: Line[] = [];
  /** The visible node of each block. */
  readonly blocks = new Map<string, number>();
  private readonly at = new Map<string, number>();
  private readonly merged = new Map<string, Line>();
  private readonly between = new Map<number, Map<string, Line>>();

  node(v: number): number {
    return this.item(`${v}`, { v, strip: null });
  }

  block({ strip, block }: Spot, v: number): void {
    this.blocks.set(`${strip} ${block}`, v);
    this.strip(strip);
  }

  /** Add a visible edge, unless both its ends are in one block. */
  edge(line: Visible["edges"][number], from: Spot | null, to: Spot | null): void {
    if (from && to && from.strip === to.strip) {
      // A strip only has room for edges between neighbouring blocks.
      if (Math.abs(from.block - to.block) === 1) this.link(from, to, line);
      return;
    }
    const source = from ? this.strip(from.strip) : this.node(line.source);
    const target = to ? this.strip(to.strip) : this.node(line.target);
    const found = from || to ? this.merged.get(`${source} ${target}`) : undefined;
    if (found) add(found, line);
    else {
      const made = add({ source, target, count: 0, edges: [], folded: [] }, line);
      this.edges.push(made);
      this.merged.set(`${source} ${target}`, made);
    }
  }

  links(strip: number): Line[] {
    return [...(this.between.get(strip)?.values() ?? [])];
  }

  private link(from: Spot, to: Spot, line: Visible["edges"][number]): void {
    const known = valueAt(this.between, from.strip, () => new Map<string, Line>());
    const key = `${from.block} ${to.block}`;
    const empty = { source: from.block, target: to.block, count: 0, edges: [], folded: [] };
    known.set(key, add(known.get(key) ?? empty, line));
  }

  private strip(strip: number): number {
    return this.item(`strip ${strip}`, { v: -1, strip });
  }

  private item(key: string, item: Item): number {
    return valueAt(this.at, key, () => this.items.push(item) - 1);
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

/** The open groups with visible content as boxes for a nested layout; groups of a single node have none. */
interface Boxes {
  group: Int32Array;
  /** Per box, the box around it; -1 for none. */
  boxParent: Int32Array;
  /** Per visible node, the box that it lies in; -1 for none. */
  box: Int32Array;
}

/** Find the boxes around nodes, parents first. `containers` are the nodes' open groups. */
export function boxesAround(containers: readonly number[], tree: GroupTree): Boxes {
  const shows = new Uint8Array(tree.path.length);
  for (const container of containers) {
    for (let g = container; g > 0 && !shows[g]; g = tree.parent[g])
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
    box: Int32Array.from(containers, (container) => boxOf[drawnAround(container, tree)]),
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
