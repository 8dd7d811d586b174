import { valueAt } from "../maps";
import { againWords } from "../scene/checkpoints";
import {
  isBody,
  isModule,
  isPart,
  isStep,
  LISTS,
  titleOf,
  withoutSteps,
} from "../scene/module_class";
import { type ModuleParameters, parametersIn, sizeOf } from "../scene/parameters";
import { partWords } from "../scene/part_words";
import type { ClosedGroup, Plan, PlanNode, Strip } from "../scene/plan";
import { isWork } from "../scene/shown_graph";
import type { GraphModel } from "../wire";
import type { Folding } from "./folding";
import { closedBoxes, type Visible } from "./reduce";
import { isCounted } from "./repeats";
import { emptyLine, extend, type Item, type Items, type Line, withoutSplits } from "./splits";
import { type GroupTree, lastPart } from "./tree";

/** The inputs of a plan with strips, besides the visible graph. */
interface Modules {
  graph: GraphModel;
  tree: GroupTree;
  /** Per group, its class, null if unknown. */
  kind: readonly (string | null)[];
  /** Per node, not 0 if it only passes a tensor on, or joins some. */
  plumbing: ArrayLike<number>;
  /** Per group, its number of operations. */
  operations: ArrayLike<number>;
  parameters: ModuleParameters;
  /** Paths of modules without a box. */
  reused: ReadonlySet<string>;
}

/** More parameters of strips and of the modules around them are counted in heads instead of drawn. */
const MOST_LEAVES = 4;
/** The share of a graph that is most of it. */
const MOST_OF = 0.75;
/** The most operations of a step to name. */
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

/** Plan a picture with strips. Linear in nodes and edges. */
export function planOf(
  grouped: Modules,
  visible: Visible,
  strips: readonly (readonly number[])[],
  { unfolded, byOne, hidesPlumbing }: Pick<Folding, "unfolded" | "byOne" | "hidesPlumbing">,
): Plan {
  const { graph, tree } = grouped;
  const counted = countedLeaves(grouped, visible, strips, unfolded);
  const drawn = itemsIn(visible, strips, counted);
  const mayFold = (id: number) => hidesPlumbing && grouped.plumbing[id] > 0 && !unfolded.has(id);
  const { items, itemOf, lines } = withoutSplits(graph, visible, drawn, mayFold);
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
  const outer = containers.map((g, i) => (isAlone[i] ? tree.parent[g] : g));
  const closed = items.map(({ v, run }, i) =>
    run.length === 0 ? visible.nodes[v].group : isAlone[i] ? containers[i] : -1,
  );
  const boxes = boxesAround(outer, tree, plainLists(grouped, outer, closed, byOne));
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
    const inSign = members[item.v].filter((id) => id !== node && !also?.includes(id));
    const module = graph.nodes[node].namespace ?? "";
    return {
      id: node,
      group: null,
      frame,
      ...(inSign.length > 0 && { inSign }),
      ...(also && { also }),
      ...(isWork(graph.nodes[node]) && grouped.reused.has(module) && { module }),
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
    counted: 0,
    used: grouped.parameters.numbers[g],
  }));
  for (const v of [...counted.byStrip.flat(), ...counted.besides]) {
    const { node, container } = visible.nodes[v];
    const frame = boxes.around[container];
    if (frame >= 0) frames[frame].counted += sizeOf(graph.nodes[node].shape);
  }
  const nodeOf = visible.nodeOf.map((at) => (at < 0 ? -1 : itemOf[at]));
  return { nodes, frames, nodeOf, edges, edgeOf };
}

/** The items of a picture in the order of their first graph nodes, so that little moves when something opens. */
function itemsIn(
  { nodes, edges }: Visible,
  strips: readonly (readonly number[])[],
  { byStrip, besides }: Counted,
): Items {
  const isCounted = new Set([...byStrip.flat(), ...besides]);
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
    if (isCounted.has(v)) return -1;
    if (!spot) return add([], []);
    const item = valueAt(itemOfStrip, spot.strip, (strip) => add(strips[strip], byStrip[strip]));
    items[item].blocks[spot.block] = v;
    return item;
  });
  const lines: Line[] = [];
  const merged = new Map<string, Line>();
  for (const edge of edges) {
    if (isCounted.has(edge.target)) continue;
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
  return { items, itemOf, lines };
}

/** Parameters that are counted in heads; visible nodes. */
interface Counted {
  /** Per strip, those that only it uses. */
  byStrip: readonly (readonly number[])[];
  /** Others of the modules around strips. */
  besides: readonly number[];
}

/** The parameters to count in the heads of strips and of the frames around them, if a picture has many. */
function countedLeaves(
  { graph, tree }: Modules,
  { nodes, edges }: Visible,
  strips: readonly (readonly number[])[],
  keep: ReadonlySet<number>,
): Counted {
  const byStrip: number[][] = strips.map(() => []);
  const besides: number[] = [];
  const stripOf = new Map(strips.flatMap((run, strip) => run.map((g) => [g, strip] as const)));
  const around = new Set(strips.map(([first]) => tree.parent[first]));
  const users: Set<number>[] = nodes.map(() => new Set());
  for (const { source, target } of edges) users[target].add(stripOf.get(nodes[source].group) ?? -1);
  const isParameter = parametersIn(graph);
  nodes.forEach(({ node, group, container }, v) => {
    const { name } = graph.nodes[node];
    const isVariable = name !== null && !name.includes(".");
    if (group >= 0 || keep.has(node) || !isParameter(node) || isVariable) return;
    const [strip] = users[v];
    if (users[v].size === 1 && strip >= 0) byStrip[strip].push(v);
    else if (container > 0 && around.has(container)) besides.push(v);
  });
  const count = besides.length + byStrip.flat().length;
  return count > MOST_LEAVES
    ? { byStrip, besides }
    : { byStrip: strips.map(() => []), besides: [] };
}

/** The modules that a step calls, in the program's order if all are known, else from the inputs on; null without any. */
function modulesIn({ modules }: GraphModel, { path, children }: GroupTree, step: number) {
  const inside = children.item.subarray(children.start[step], children.start[step + 1]);
  const called = Array.from(inside, (g) => path[g]).filter((one) => !isPart(one));
  const placeOf = new Map(
    called.map((one) => [one, modules.namespaces.indexOf(withoutSteps(one))]),
  );
  const place = (one: string) => placeOf.get(one) ?? -1;
  called.reverse();
  if (called.every((one) => place(one) >= 0)) called.sort((a, b) => place(a) - place(b));
  const names = called.map((one) => one.slice(path[step].length + 1).replaceAll("/", "."));
  return names.join(" · ") || null;
}

/** The main operations of a loop's second step, as its first one may have fewer. */
function operationsIn(
  { nodes }: GraphModel,
  blocks: readonly Pick<PlanNode & { group: ClosedGroup }, "group">[],
): string | null {
  const operations = blocks[1].group.members.map((id) => nodes[id]).filter(isWork);
  return partWords(operations, (words) => words.split(" · ").length <= MOST_NAMES);
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
  const nameOf = (g: number) => /\d+$/.exec(tree.path[g])?.[0] ?? "";
  // The steps of a loop share their parameters.
  const least = run.reduce((least, g) => Math.min(least, numbers[g]), Infinity);
  const [larger, ...others] = run.filter((g) => numbers[g] > least);
  const isEven = !areSteps && others.length === 0;
  const [name, last] = [lastPart(tree.path[first]), lastPart(tree.path[run[run.length - 1]])];
  // A frame around it has the name of the group.
  const around = where.isAlone ? titleOf(tree.path[tree.parent[first]]) : "";
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
      kind:
        (areSteps && modulesIn(graph, tree, first)) ||
        kind[first] ||
        (areSteps ? operationsIn(graph, blocks) : null),
      each: isEven ? least : null,
      larger: isEven && larger ? { name: nameOf(larger), by: numbers[larger] - least } : null,
      again: again.every((words) => words === again[0]) ? again[0] : null,
      blocks: blocks.map((block, i) => ({
        ...block,
        name: nameOf(run[i]),
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
  /** Per group, its box, or the innermost one around it; -1 for none. */
  around: Int32Array;
}

/**
 * The open lists of modules that need no frame, 1 for each: all that they show are boxes and frames with the list's name
 * in their titles. A list that runs as a whole keeps its frame unless most of the graph is in it, and one that the reader
 * opened (`byOne`) has a frame to close it. `containers` are the items' open groups, and `closed` their closed ones.
 */
function plainLists(
  { tree, kind, operations }: Modules,
  containers: readonly number[],
  closed: readonly number[],
  byOne: ReadonlySet<string>,
): Int8Array {
  const { path, parent } = tree;
  const isList = (g: number) =>
    !byOne.has(path[g]) &&
    isModule(path[g]) &&
    (kind[g] === null ||
      LISTS.test(kind[g]) ||
      (kind[g] === "Sequential" && operations[g] >= MOST_OF * operations[0]));
  /** 1 for these lists, -1 for other groups with content. */
  const isPlain = new Int8Array(path.length);
  // A graph that is shown whole is small enough for all frames.
  if (closed.every((g) => g < 0)) return isPlain;
  containers.forEach((container, i) => {
    // A closed box, or nothing with a title.
    let inner = closed[i];
    for (let g = container; g > 0; g = parent[g]) {
      const isTitled = inner >= 0 && isCounted(path[inner]);
      if (isPlain[g] >= 0) isPlain[g] = isTitled && (isPlain[g] === 1 || isList(g)) ? 1 : -1;
      inner = hasFrame(g, tree) ? g : -1;
    }
  });
  return isPlain;
}

/** Find the boxes around nodes, parents first. `containers` are the nodes' open groups. */
export function boxesAround(
  containers: readonly number[],
  tree: GroupTree,
  isPlain: ArrayLike<number> = [],
): Boxes {
  const shows = new Uint8Array(tree.path.length);
  for (const container of containers) {
    for (let g = container; g > 0 && !shows[g]; g = tree.parent[g])
      if (hasFrame(g, tree) && isPlain[g] !== 1) shows[g] = 1;
  }
  const group = Int32Array.from(shows.keys()).filter((g) => shows[g] === 1);
  const around = new Int32Array(tree.path.length).fill(-1);
  let count = 0;
  for (let g = 1; g < shows.length; g++) around[g] = shows[g] ? count++ : around[tree.parent[g]];
  return {
    group,
    boxParent: group.map((g) => around[tree.parent[g]]),
    box: Int32Array.from(containers, (container) => around[container]),
    around,
  };
}

/** A single node's group has a frame only if the frame shows when it runs. */
function hasFrame(group: number, { size, path }: GroupTree): boolean {
  return size[group] > 1 || isBody(path[group]);
}
