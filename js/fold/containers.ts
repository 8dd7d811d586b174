import { type Graph, makeGraph } from "../layout/graph";
import { topological } from "../layout/rank";
import { isModule } from "../scene/module_class";
import { isWork } from "../scene/shown_graph";
import type { NodeModel } from "../wire";
import type { GroupedEdges, GroupTree } from "./tree";

/** Classes of containers, which no program calls; `watch()` sees no class of one. */
export const LISTS = /^(ModuleList|ModuleDict)$/;
/** A container with more modules stays, because they would not fit. */
const MOST_MODULES = 24;
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
  return new Set([...scattered, ...paired(graph, lists)].map((g) => tree.path[g]));
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

/** Containers with at least two modules that hand a tensor each to different modules of another container. */
function paired({ source, target, tree }: GroupedEdges, lists: readonly number[]): Set<number> {
  const isList = new Uint8Array(tree.path.length);
  for (const list of lists) isList[list] = 1;
  /** Per group, its outermost module in a list; -1 for none. */
  const module = new Int32Array(tree.path.length).fill(-1);
  for (let g = 1; g < module.length; g++) {
    const around = module[tree.parent[g]];
    module[g] = around >= 0 ? around : isList[tree.parent[g]] ? g : -1;
  }
  const users = new Map<string, [Set<number>, Set<number>]>();
  const found = new Set<number>();
  for (let e = 0; e < source.length; e++) {
    const [a, b] = [module[tree.groupOf[source[e]]], module[tree.groupOf[target[e]]]];
    if (a < 0 || b < 0) continue;
    const [listA, listB] = [tree.parent[a], tree.parent[b]];
    if (listA === listB) continue;
    const key = `${listA} ${listB}`;
    const [from, to] = users.get(key) ?? [new Set(), new Set()];
    users.set(key, [from.add(a), to.add(b)]);
    if (from.size > 1 && to.size > 1) found.add(listA).add(listB);
  }
  return found;
}

function within(parent: Int32Array, group: number): Uint8Array {
  const isIn = new Uint8Array(parent.length);
  isIn[group] = 1;
  for (let g = group + 1; g < isIn.length; g++) isIn[g] = isIn[parent[g]] ?? 0;
  return isIn;
}
