import { type Graph, makeGraph } from "../layout/graph";
import { topological } from "../layout/rank";
import { valueAt } from "../maps";
import { isModule, LISTS } from "../scene/module_class";
import { isWork } from "../scene/shown_graph";
import type { NodeModel } from "../wire";
import type { GroupedEdges, GroupTree } from "./tree";

/** A container with more modules stays, because they would not fit. */
const MOST_MODULES = 24;
/** The most modules that use what an operation makes. */
const MOST_USERS = 4;
/** The most containers of a graph that are looked at. */
const MOST = 32;

/**
 * The containers that are not boxes of their own, because their modules do not run one after the other (the lists of a
 * U-Net's convolutions), or hand tensors to those of another container in pairs (its two halves). Paths.
 */
export function scatteredContainers(
  graph: GroupedEdges & Pick<Graph, "source" | "target">,
  kind: readonly (string | null)[],
): Set<string> {
  const { tree } = graph;
  const { start } = tree.children;
  const isList = (g: number) =>
    g > 0 &&
    start[g + 1] - start[g] > 1 &&
    start[g + 1] - start[g] <= MOST_MODULES &&
    (kind[g] === null || LISTS.test(kind[g])) &&
    isModule(tree.path[g]);
  const lists = [...tree.path.keys()].filter(isList).slice(0, MOST);
  if (lists.length === 0) return new Set();
  const whole = makeGraph(tree.groupOf.length, graph.source, graph.target);
  const order = topological(whole);
  const scattered = lists.filter((list) => isEntered(whole, tree, order, list));
  return new Set([...scattered, ...paired(graph, lists, order)].map((g) => tree.path[g]));
}

/**
 * The modules without parameters whose operations use nothing of each other: a dropout or an activation that is called in
 * several places. One box for them would tie those places together. Paths.
 */
export function reusedModules(
  { source, target, tree }: GroupedEdges,
  nodes: readonly Pick<NodeModel, "kind">[],
): Set<string> {
  const { groupOf, children, path } = tree;
  const calls = new Int32Array(path.length);
  nodes.forEach(({ kind }, v) => {
    if (isWork({ kind })) calls[groupOf[v]]++;
  });
  for (let e = 0; e < source.length; e++) {
    const g = groupOf[source[e]];
    const { kind } = nodes[target[e]];
    if (kind === "leaf" || (g === groupOf[target[e]] && isWork({ kind }))) calls[g] = 0;
  }
  const isReused = (g: number) =>
    g > 0 && calls[g] > 1 && children.start[g] === children.start[g + 1] && isModule(path[g]);
  return new Set(path.filter((_, g) => isReused(g)));
}

/** Whether a tensor leaves a group and comes back into it; `order` has users before operands. */
function isEntered(graph: Graph, { groupOf, parent }: GroupTree, order: Int32Array, group: number) {
  const isIn = within(parent, group);
  const isMember = (v: number) => isIn[groupOf[v]] === 1;
  let last = order.length - 1;
  while (last >= 0 && !isMember(order[last])) last--;
  /** Per node, whether it is outside and a member uses what it makes. */
  const isUsed = new Uint8Array(graph.n);
  for (let at = order.findIndex(isMember); at >= 0 && at <= last; at++) {
    const v = order[at];
    if (!isMember(v) && !isUsed[v]) continue;
    for (let i = graph.out.start[v]; i < graph.out.start[v + 1]; i++) {
      const to = graph.target[graph.out.item[i]];
      if (!isMember(to)) isUsed[to] = 1;
      else if (!isMember(v)) return true;
    }
  }
  return false;
}

/**
 * Containers with at least two modules that hand a tensor each to different modules of another container, directly or
 * through operations.
 */
function paired(
  { source, target, tree }: GroupedEdges,
  lists: readonly number[],
  order: Int32Array,
): Set<number> {
  const isList = new Uint8Array(tree.path.length);
  for (const list of lists) isList[list] = 1;
  /** Per group, its outermost module in a list; -1 for none. */
  const module = new Int32Array(tree.path.length).fill(-1);
  for (let g = 1; g < module.length; g++) {
    const around = module[tree.parent[g]];
    module[g] = around >= 0 ? around : isList[tree.parent[g]] ? g : -1;
  }
  const moduleOf = (v: number) => module[tree.groupOf[v]];
  const past = usersPast({ source, target, tree }, moduleOf, order);
  const users = new Map<string, [Set<number>, Set<number>]>();
  const found = new Set<number>();
  const pair = (a: number, b: number) => {
    const [listA, listB] = [tree.parent[a], tree.parent[b]];
    if (listA === listB) return;
    const [from, to] = valueAt(users, `${listA} ${listB}`, () => [new Set(), new Set()]);
    from.add(a);
    to.add(b);
    if (from.size > 1 && to.size > 1) found.add(listA).add(listB);
  };
  for (let e = 0; e < source.length; e++) {
    const [a, b] = [moduleOf(source[e]), moduleOf(target[e])];
    if (b < 0) continue;
    for (const user of a >= 0 ? [a] : (past.get(source[e]) ?? [])) pair(user, b);
  }
  return found;
}

/** Per operation outside of lists, such as a concatenation, the first modules in lists that its result comes to. */
function usersPast(
  { source, target }: GroupedEdges,
  moduleOf: (node: number) => number,
  order: Int32Array,
): Map<number, Set<number>> {
  const place = new Int32Array(order.length);
  order.forEach((v, at) => {
    place[v] = at;
  });
  const past = new Map<number, Set<number>>();
  const outside = Array.from({ length: source.length }, (_, e) => e)
    .filter((e) => moduleOf(target[e]) < 0)
    .sort((a, b) => place[source[a]] - place[source[b]]);
  for (const e of outside) {
    const known = valueAt(past, target[e], () => new Set());
    const user = moduleOf(source[e]);
    for (const one of user >= 0 ? [user] : (past.get(source[e]) ?? []))
      if (known.size < MOST_USERS) known.add(one);
  }
  return past;
}

function within(parent: Int32Array, group: number): Uint8Array {
  const isIn = new Uint8Array(parent.length);
  isIn[group] = 1;
  for (let g = group + 1; g < isIn.length; g++) isIn[g] = isIn[parent[g]] ?? 0;
  return isIn;
}
