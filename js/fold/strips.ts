import { valueAt } from "../maps";
import { againWords } from "../scene/checkpoints";
import { isBody, isStep } from "../scene/module_class";
import { type ModuleParameters, parametersIn, sizeOf } from "../scene/parameters";
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

/** More parameters that only one strip uses are counted in its head instead of drawn. */
const MOST_LEAVES = 4;
/** The most modules of a step to name. */
const MOST_NAMES = 3;
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

/** A node of the picture: a visible node, or a strip with the visible node of each block. */
interface Item {
  v: number;
  run: readonly number[];
  blocks: number[];
  /** Between neighbouring blocks, by their numbers. */
  links: Map<string, Line>;
  /** The parameters that are counted in its head; visible nodes. */
  shared: readonly number[];
}

type Line = Pick<PlanEdge, "source" | "target" | "count"> & { edges: number[]; folded: number[] };

/** Plan a picture with strips; `keep` are leaves to draw anyway. Linear in nodes and edges. */
export function planOf(
  grouped: Modules,
  visible: Visible,
  strips: readonly (readonly number[])[],
  keep: ReadonlySet<number> = new Set(),
): Plan {
  const { graph, tree } = grouped;
  const { items, itemOf, lines } = itemsIn(
    visible,
    strips,
    sharedLeaves(graph, visible, strips, keep),
  );
  const members: number[][] = visible.nodes.map(() => []);
  visible.nodeOf.forEach((at, v) => {
    if (at >= 0) members[at].push(v);
  });
  const closedGroup = (g: number, v: number): ClosedGroup => {
    return { paths: [tree.path[g]], members: members[v], leaves: grouped.parameters.leaves[g] };
  };
  const containers = items.map(({ v, run }) =>
    run.length > 0 ? tree.parent[run[0]] : visible.nodes[v].container,
  );
  const inside = new Int32Array(tree.path.length);
  for (const container of containers)
    for (let g = container; g > 0; g = tree.parent[g]) inside[g]++;
  /** Per item, whether it is a strip alone in its group, which it then replaces. */
  const isAlone = items.map(
    ({ run }, i) => run.length > 0 && containers[i] > 0 && inside[containers[i]] === 1,
  );
  const boxes = boxesAround(
    containers.map((g, i) => (isAlone[i] ? tree.parent[g] : g)),
    tree,
  );
  const nodes = items.map((item, i): PlanNode => {
    const frame = boxes.box[i];
    if (item.run.length > 0) {
      const blocks = item.blocks.map((v, block) => ({
        id: visible.nodes[v].node,
        group: closedGroup(item.run[block], v),
      }));
      const where = { path: tree.path[containers[i]], isAlone: isAlone[i] };
      const shared = item.shared.map((v) => visible.nodes[v].node);
      return { ...stripNode(grouped, item, blocks, shared, where), frame };
    }
    const { node, group, also } = visible.nodes[item.v];
    if (group >= 0) return { id: node, group: closedGroup(group, item.v), frame };
    const said = members[item.v].filter((id) => id !== node && !also?.includes(id));
    return {
      id: node,
      group: null,
      frame,
      ...(said.length > 0 && { said }),
      ...(also && { also }),
    };
  });
  const edgeOf = new Int32Array(graph.edges.length).fill(-1);
  const edges = lines.map((edge, i) => {
    for (const e of edge.edges) edgeOf[e] = i;
    const isPlain = edge.count === 1 && nodes[edge.source].group === null;
    return { ...edge, argument: isPlain ? graph.edges[edge.edges[0]].argument : null };
  });
  const frames = Array.from(boxes.group, (g, i) => ({
    path: tree.path[g],
    parent: boxes.boxParent[i],
  }));
  const nodeOf = visible.nodeOf.map((at) => (at < 0 ? -1 : itemOf[at]));
  return { nodes, frames, nodeOf, edges, edgeOf };
}

/** The items of a picture in the order of their first graph nodes, so that little moves when something opens. */
function itemsIn(
  { nodes, edges }: Visible,
  strips: readonly (readonly number[])[],
  shared: readonly (readonly number[])[],
) {
  const isShared = new Set(shared.flat());
  /** Per block of a strip, its strip and its number there. */
  const spots = new Map(
    strips.flatMap((run, strip) => run.map((g, block) => [g, { strip, block }] as const)),
  );
  const spotOf = (v: number) => spots.get(nodes[v].group);
  const items: Item[] = [];
  const itemOfStrip = new Map<number, number>();
  const itemOf = nodes.map((_, v) => {
    const spot = spotOf(v);
    const add = (run: readonly number[], shared: readonly number[]) =>
      items.push({ v, run, blocks: [], links: new Map(), shared }) - 1;
    if (isShared.has(v)) return -1;
    if (!spot) return add([], []);
    const item = valueAt(itemOfStrip, spot.strip, (strip) => add(strips[strip], shared[strip]));
    items[item].blocks[spot.block] = v;
    return item;
  });
  const lines: Line[] = [];
  const merged = new Map<string, Line>();
  for (const edge of edges) {
    if (isShared.has(edge.target)) continue;
    const [from, to] = [spotOf(edge.source), spotOf(edge.target)];
    const [source, target] = [itemOf[edge.source], itemOf[edge.target]];
    if (from && to && from.strip === to.strip) {
      // A strip only has room for edges between neighbouring blocks.
      if (Math.abs(from.block - to.block) !== 1) continue;
      const key = `${from.block} ${to.block}`;
      extend(
        valueAt(items[source].links, key, () => emptyLine(from.block, to.block)),
        edge,
      );
      continue;
    }
    const make = () => lines[lines.push(emptyLine(source, target)) - 1];
    extend(from || to ? valueAt(merged, `${source} ${target}`, make) : make(), edge);
  }
  return { items, itemOf, lines: lines.sort((a, b) => a.edges[0] - b.edges[0]) };
}

/** Per strip, the parameters of modules that only it uses, if they are many; visible nodes. */
function sharedLeaves(
  graph: GraphModel,
  { nodes, edges }: Visible,
  strips: readonly (readonly number[])[],
  keep: ReadonlySet<number>,
): number[][] {
  const found: number[][] = strips.map(() => []);
  if (found.length === 0) return found;
  const stripOf = new Map(strips.flatMap((run, strip) => run.map((g) => [g, strip] as const)));
  const users: Set<number>[] = nodes.map(() => new Set());
  for (const { source, target } of edges) users[target].add(stripOf.get(nodes[source].group) ?? -1);
  const isParameter = parametersIn(graph);
  nodes.forEach(({ node, group }, v) => {
    const [strip] = users[v];
    if (group >= 0 || users[v].size !== 1 || strip < 0 || keep.has(node)) return;
    if (isParameter(node) && graph.nodes[node].name?.includes(".")) found[strip].push(v);
  });
  return found.map((leaves) => (leaves.length > MOST_LEAVES ? leaves : []));
}

/** The modules that a step calls, by name, from the inputs on; null if there are none, or many. */
function modulesIn({ path, children }: GroupTree, step: number): string | null {
  const inside = children.item.subarray(children.start[step], children.start[step + 1]);
  const names = Array.from(inside, (g) => lastPart(path[g])).reverse();
  return names.length > 0 && names.length <= MOST_NAMES ? names.join(" · ") : null;
}

function emptyLine(source: number, target: number): Line {
  return { source, target, count: 0, edges: [], folded: [] };
}

function extend(line: Line, { count, edges, folded }: Visible["edges"][number]): void {
  line.count += count;
  for (const e of edges) line.edges.push(e);
  for (const v of folded) line.folded.push(v);
}

/** A strip as a node, with the first graph node and the content of each block. */
function stripNode(
  { graph, tree, kind, parameters: { numbers } }: Modules,
  { run, links }: Item,
  blocks: readonly Pick<PlanNode & { group: ClosedGroup }, "id" | "group">[],
  shared: readonly number[],
  where: Pick<Strip, "path" | "isAlone">,
): Omit<PlanNode, "frame"> {
  const [first] = run;
  const again = run.map((g) => againWords(graph, tree.path[g]));
  const areSteps = isStep(tree.path[first]);
  // The steps of a loop share their parameters.
  const isEven = !areSteps && run.every((g) => numbers[g] === numbers[first]);
  const [name, last] = [lastPart(tree.path[first]), lastPart(tree.path[run[run.length - 1]])];
  // A frame around it has the name of the group.
  const around = where.isAlone ? lastPart(tree.path[tree.parent[first]]) : "";
  const own = name.replace(/^loop \d+ |\s*\d+$/g, "");
  // A loop that is all of a module has the module's name.
  const stem = areSteps && where.isAlone ? "" : own;
  return {
    id: blocks[0].id,
    group: {
      paths: run.map((g) => tree.path[g]),
      members: blocks.flatMap(({ group }) => group.members),
      leaves: [],
    },
    strip: {
      ...where,
      title: stem || around || `${name} … ${last}`,
      kind: kind[first] ?? (areSteps ? modulesIn(tree, first) : null),
      each: isEven ? numbers[first] : null,
      again: again.every((words) => words === again[0]) ? again[0] : null,
      blocks: blocks.map((block, i) => ({
        ...block,
        name: /\d+$/.exec(tree.path[run[i]])?.[0] ?? "",
        isAgain: again[i] !== null,
      })),
      links: [...links.values()],
      ...(shared.length > 0 && {
        shared: shared.reduce((sum, id) => sum + sizeOf(graph.nodes[id].shape), 0),
      }),
    },
  };
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
