import type { GraphModel } from "../wire";
import { expandTo, type GroupTree, pathTo } from "./tree";

/** The boxes that the reader opened and folded. Immutable: the functions below return new ones. */
export interface Folding {
  /** Paths of the groups that the reader opened. */
  open: ReadonlySet<string>;
  /** The groups that the reader opened one by one: a list among them has a frame, whose sign closes it. */
  byOne: ReadonlySet<string>;
  /** Groups opened only to show the last search result; the next one closes them. */
  peek: readonly string[];
  /** Whether plumbing is folded into its edges. */
  hidesPlumbing: boolean;
  /** Plumbing that stays visible. */
  unfolded: ReadonlySet<number>;
  /** Whether repeated blocks are drawn as strips while at most two of them are open. */
  foldsRepeats: boolean;
}

/** The largest graph that is shown whole at first, in nodes. */
export const LARGEST_WHOLE = 200;
/** The initial folding: all of a small graph is shown, and all groups of a large one are closed. */
export function firstFolding(tree: GroupTree): Folding {
  const isLarge = tree.groupOf.length > LARGEST_WHOLE;
  return {
    open: expandTo(tree, isLarge ? 0 : Number.POSITIVE_INFINITY),
    byOne: new Set(),
    peek: [],
    hidesPlumbing: isLarge,
    unfolded: new Set(),
    foldsRepeats: true,
  };
}

/** Every node shown, every group open. */
export function wholeFolding(tree: GroupTree): Folding {
  return setPlumbing(toDepth(tree, firstFolding(tree), deepest(tree)), false);
}

export function deepest(tree: GroupTree): number {
  return tree.depth.reduce((most, depth) => Math.max(most, depth), 0);
}

/** All open paths, also those opened by search. */
export function openPaths({ open, peek }: Folding): ReadonlySet<string> {
  return peek.length === 0 ? open : new Set([...open, ...peek]);
}

export function isOpen({ open, peek }: Folding, path: string): boolean {
  return open.has(path) || peek.includes(path);
}

/** Whether two foldings show the same. */
export function isSameFolding(a: Folding, b: Folding): boolean {
  const same = <T>(one: ReadonlySet<T>, other: ReadonlySet<T>) =>
    one.size === other.size && [...one].every((each) => other.has(each));
  return (
    a === b ||
    (a.hidesPlumbing === b.hidesPlumbing &&
      a.foldsRepeats === b.foldsRepeats &&
      same(openPaths(a), openPaths(b)) &&
      same(a.byOne, b.byOne) &&
      same(a.unfolded, b.unfolded))
  );
}

/** Open a group and those around it. */
export function openGroup(tree: GroupTree, folding: Folding, path: string): Folding {
  const open = new Set(folding.open);
  for (let g = tree.byPath.get(path) ?? 0; g > 0; g = tree.parent[g]) open.add(tree.path[g]);
  return { ...folding, open, byOne: new Set([...folding.byOne, path]) };
}

/** The same folding of a changed graph. `was` has each node's id in the graph before, null for a new node. */
export function renumbered(folding: Folding, was: readonly (number | null)[]): Folding {
  const now = new Map(was.map((old, id) => [old, id]));
  const unfolded = [...folding.unfolded].flatMap((old) => now.get(old) ?? []);
  return { ...folding, unfolded: new Set(unfolded) };
}

/** Open the boxes of compiled code that were added since `before`, and their modules if the graph is small. */
export function openInside(
  { graph, tree }: { graph: GraphModel; tree: GroupTree },
  before: GroupTree,
  folding: Folding,
): Folding {
  const isNew = (g: number) => g > 0 && !before.byPath.has(tree.path[g]);
  const boxes = new Set<number>();
  for (const { id, kind } of graph.nodes) {
    if (kind !== "call") continue;
    for (let g = tree.groupOf[id]; isNew(g) && !boxes.has(g); g = tree.parent[g]) boxes.add(g);
  }
  const isSmall = graph.nodes.length <= LARGEST_WHOLE;
  const shown = [...boxes].filter((g) => isSmall || !isNew(tree.parent[g]));
  if (shown.length === 0) return folding;
  return { ...folding, open: new Set([...folding.open, ...shown.map((g) => tree.path[g])]) };
}

/** The opened boxes of compiled code, and the groups around them. */
export function openedByHand({ graph, tree }: { graph: GraphModel; tree: GroupTree }): Set<string> {
  const compiled = new Set(graph.nodes.flatMap(({ inside }) => inside ?? []));
  const paths = new Set<string>();
  for (const id of compiled) {
    for (let g = tree.groupOf[id]; g > 0 && !paths.has(tree.path[g]); g = tree.parent[g])
      paths.add(tree.path[g]);
  }
  return paths;
}

export function closeGroup(folding: Folding, path: string): Folding {
  const open = new Set(folding.open);
  open.delete(path);
  const byOne = new Set(folding.byOne);
  byOne.delete(path);
  return { ...folding, open, byOne, peek: folding.peek.filter((other) => other !== path) };
}

/** Open exactly this many levels. */
export function toDepth(tree: GroupTree, folding: Folding, depth: number): Folding {
  return { ...folding, open: expandTo(tree, depth), byOne: new Set(), peek: [] };
}

/** The number of open levels if they are open as a whole; null otherwise. */
export function depthOf(tree: GroupTree, folding: Folding): number | null {
  const paths = openPaths(folding);
  let depth = 0;
  for (let g = 1; g < tree.path.length; g++)
    if (paths.has(tree.path[g])) depth = Math.max(depth, tree.depth[g]);
  const whole = expandTo(tree, depth);
  return whole.size === paths.size && [...whole].every((path) => paths.has(path)) ? depth : null;
}

/** Open the groups that hide a node, permanently or (`peek`) until the next one. */
export function revealNode(
  tree: GroupTree,
  folding: Folding,
  node: number,
  how: "stay" | "peek" = "stay",
): Folding {
  const around = pathTo(tree, node);
  const unfolded = new Set([...folding.unfolded, node]);
  if (how === "peek") return { ...folding, peek: around, unfolded };
  return { ...folding, open: new Set([...folding.open, ...around]), unfolded };
}

export function keepPeek(folding: Folding): Folding {
  return folding.peek.length === 0 ? folding : { ...folding, open: openPaths(folding), peek: [] };
}

export function setPlumbing(folding: Folding, hides: boolean): Folding {
  return { ...folding, hidesPlumbing: hides, unfolded: new Set() };
}

/** Shows plumbing that was folded into an edge. */
export function unfoldPlumbing(folding: Folding, nodes: Iterable<number>): Folding {
  return { ...folding, unfolded: new Set([...folding.unfolded, ...nodes]) };
}

export function setRepeats(folding: Folding, folds: boolean): Folding {
  return { ...folding, foldsRepeats: folds };
}

/** Open a block of a strip instead of the other blocks of its run, with this many levels of nested modules. */
export function openBlock(
  tree: GroupTree,
  folding: Folding,
  run: readonly number[],
  path: string,
  levels: number,
): Folding {
  const others = new Set(run.map((g) => tree.path[g]));
  const within = (one: string) => one.startsWith(`${path}/`);
  const open = [...openPaths(folding)].filter((one) => !others.has(one) && !within(one));
  const depth = (tree.depth[tree.byPath.get(path) ?? 0] ?? 0) + levels;
  const { start } = tree.children;
  const inside = tree.path.filter(
    (one, g) => within(one) && tree.depth[g] <= depth && start[g + 1] > start[g],
  );
  return openGroup(tree, { ...folding, open: new Set([...open, ...inside]), peek: [] }, path);
}
