import { type Grouped, group } from "../layout/graph";
import { valueAt } from "../maps";
import type { GraphModel } from "../wire";

/** The tree of groups from the nodes' namespaces. Group 0 is the whole graph; parents precede their children. */
export interface GroupTree {
  /** Per group, its full path, "encoder/layers/0"; "" for the whole graph. */
  path: string[];
  /** Per group, its parent; -1 for the whole graph. */
  parent: Int32Array;
  /** Per group, its depth: 0 for the whole graph, 1 for "encoder". */
  depth: Int32Array;
  /** The children of each group, in the order of their first nodes. */
  children: Grouped;
  /** Per node, its innermost group. */
  groupOf: Int32Array;
  /** Per group, its number of nodes, subgroups included. */
  size: Int32Array;
  byPath: ReadonlyMap<string, number>;
}

/** A graph's edges, by their ends, and its groups. Acyclic. */
export interface GroupedEdges {
  source: ArrayLike<number>;
  target: ArrayLike<number>;
  tree: GroupTree;
}

/**
 * The tree of groups of the nodes' namespaces, "encoder/layers/0"; empty parts ("a//b") are left out, and so are groups
 * with a path in `without`. Linear.
 */
export function groupTree(
  namespaces: readonly string[],
  without: ReadonlySet<string> = new Set(),
): GroupTree {
  const path = [""];
  const parent = [-1];
  const depth = [0];
  const byPath = new Map([["", 0]]);
  const known = new Map([["", 0]]);
  const groupOf = new Int32Array(namespaces.length);
  namespaces.forEach((namespace, v) => {
    groupOf[v] = valueAt(known, namespace, find);
  });
  const size = new Int32Array(path.length);
  for (const g of groupOf) size[g]++;
  for (let g = path.length - 1; g > 0; g--) size[parent[g]] += size[g];
  const parents = Int32Array.from(parent);
  return {
    path,
    parent: parents,
    depth: Int32Array.from(depth),
    children: group(path.length, parents),
    groupOf,
    size,
    byPath,
  };

  /** Find or create the group of a namespace. */
  function find(namespace: string): number {
    let at = 0;
    let inner = "";
    for (const part of namespace.split("/")) {
      if (part === "") continue;
      inner = inner === "" ? part : `${inner}/${part}`;
      if (without.has(inner)) continue;
      let next = byPath.get(inner);
      if (next === undefined) {
        next = path.push(inner) - 1;
        parent.push(at);
        depth.push(depth[at] + 1);
        byPath.set(inner, next);
      }
      at = next;
    }
    return at;
  }
}

/** The last part of a group's path, "0" of "encoder/layers/0". */
export function lastPart(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** The graph nodes in a group and its subgroups, in order. */
export function membersIn({ byPath, groupOf, parent }: GroupTree, path: string): number[] {
  const group = byPath.get(path) ?? -1;
  const lies = new Uint8Array(parent.length);
  for (let g = 0; g < lies.length; g++) lies[g] = g === group || lies[parent[g]] ? 1 : 0;
  return Array.from(groupOf.keys()).filter((v) => lies[groupOf[v]] === 1);
}

export function expandTo(tree: GroupTree, depth: number): Set<string> {
  return new Set(tree.path.filter((_, g) => g > 0 && tree.depth[g] <= depth));
}

/** The groups to open to see a node, outermost first. */
export function pathTo(tree: GroupTree, node: number): string[] {
  const paths: string[] = [];
  for (let g = tree.groupOf[node]; g > 0; g = tree.parent[g]) paths.push(tree.path[g]);
  return paths.reverse();
}

export function namespacesOf({ nodes, edges }: GraphModel): string[] {
  const known: (string | null)[] = nodes.map(({ kind, namespace }) =>
    namespace !== null && namespace !== undefined ? namespace : kind === "op" ? "" : null,
  );
  const around: (string | null)[] = known.slice();
  // Operands come after their users, so one pass is enough; cuts of cuts need a second one.
  for (let pass = 0; pass < 2; pass++) {
    for (const { source, target } of edges) {
      const outer = around[source];
      if (known[target] !== null || outer === null) continue;
      const so = around[target];
      around[target] = so === null ? outer : commonGroup(so, outer);
    }
  }
  return around.map((namespace) => namespace ?? "");
}

/** The innermost common group: "a/b" for "a/b/c" and "a/b/d". */
export function commonGroup(a: string, b: string): string {
  if (a === b) return a;
  const others = b.split("/");
  const parts = a.split("/");
  let same = 0;
  while (same < parts.length && same < others.length && parts[same] === others[same]) same++;
  return parts.slice(0, same).join("/");
}
