import { type Folding, openBlock } from "../fold/folding";
import { foldedPlan, type GroupedGraph } from "../fold/grouped_graph";
import { isFollower } from "../fold/layers";
import { HOLDERS } from "../fold/repeats";
import { listsBy } from "../maps";
import { isStep } from "../scene/module_class";
import type { Plan } from "../scene/plan";
import { isWork } from "../scene/shown_graph";

/** A picture with fewer items is opened further, box by box, even if similar boxes stay closed. */
export const FEW_THINGS = 12;
/** The most attempts to open more. */
const MOST_TRIED = 10;

/**
 * Boxes of one class are open or closed alike: close those with an equal that is closed in
 * their plan, except the `held`.
 */
export function openedAlike(
  { tree, kind }: GroupedGraph,
  folding: Folding,
  { nodes }: Plan,
  hasMore: (g: number) => boolean,
  held: ReadonlySet<string>,
): Folding {
  const groupOf = (path: string) => tree.byPath.get(path) ?? 0;
  const boxes = nodes.flatMap(({ group, strip }) => (group && !strip ? group.paths : []));
  const closed = boxes.filter((path) => hasMore(groupOf(path)));
  const byClass = listsBy(closed, (path) => kind[groupOf(path)]);
  const isKept = (path: string) => {
    const own = kind[groupOf(path)];
    if (own === null || HOLDERS.test(own) || held.has(path)) return true;
    return (byClass.get(own) ?? []).every((one) => one.startsWith(`${path}/`));
  };
  const open = [...folding.open].filter(isKept);
  return open.length < folding.open.size ? { ...folding, open: new Set(open) } : folding;
}

/** Open more boxes, class by class, while everything is readable. */
export function openedFurther(
  grouped: GroupedGraph,
  level: Folding,
  hasMore: (g: number) => boolean,
  canBeRead: (folding: Folding) => boolean,
): Folding {
  const { tree, kind } = grouped;
  const { numbers } = grouped.parameters;
  let folding = level;
  const tried = new Set<string>();
  const opensOne = (): boolean => {
    const { nodes } = foldedPlan(grouped, folding);
    const closed = nodes.flatMap(({ group }) => group?.paths ?? []);
    const boxes = closed.map((path) => tree.byPath.get(path) ?? 0).filter(hasMore);
    const alike = partsBy(boxes, (g) => kind[g] ?? tree.parent[g]);
    const isEmpty = nodes.length < FEW_THINGS;
    const besides = isEmpty
      ? [...partsBy(boxes, (g) => tree.parent[g]), ...partsBy(boxes, (g) => g)]
      : [];
    // A box beside a larger one that stays closed would get the wrong weight.
    const isSmaller = (some: readonly number[]) => {
      const largest = Math.max(...some.map((g) => numbers[g]));
      const around = new Set(some.map((g) => tree.parent[g]));
      return boxes.some((g) => numbers[g] > largest && around.has(tree.parent[g]));
    };
    for (const some of [...alike, ...besides]) {
      if (!isEmpty && isSmaller(some)) continue;
      const key = some.join();
      if (tried.has(key) || tried.size >= MOST_TRIED) continue;
      tried.add(key);
      const open = new Set([...folding.open, ...some.map((g) => tree.path[g])]);
      if (!canBeRead({ ...folding, open })) continue;
      folding = { ...folding, open };
      return true;
    }
    return false;
  };
  while (opensOne());
  return folding;
}

/**
 * In a picture of few items, open a block of its only strip, and in it the largest boxes, while that is readable. A block
 * whose largest box would stay closed says less than a plain strip, unless it is drawn at its own size or larger.
 */
export function withOneBlock(
  grouped: GroupedGraph,
  folding: Folding,
  canBeRead: (folding: Folding, scale?: number) => boolean,
): Folding {
  const { tree, runs, parameters } = grouped;
  if (thingsIn(grouped, folding) >= FEW_THINGS) return folding;
  const strips = foldedPlan(grouped, folding).nodes.filter(({ strip }) => strip);
  const paths = strips.flatMap(({ group }) => group?.paths ?? []);
  const run = runs.find(([first]) => paths.includes(tree.path[first]));
  if (!run || strips.length > 1 || isStep(paths[0])) return folding;
  for (const path of [paths[paths.length - 1], paths[0]]) {
    let opened = openBlock(tree, folding, run, path, 0);
    if (!canBeRead(opened)) continue;
    const { start, item } = tree.children;
    const block = tree.byPath.get(path) ?? 0;
    const inside = [...item.subarray(start[block], start[block + 1])];
    const [largest, ...others] = inside.sort(
      (a, b) => parameters.numbers[b] - parameters.numbers[a],
    );
    const opens = (g: number): boolean => {
      if (start[g + 1] === start[g]) return true;
      const next = { ...opened, open: new Set([...opened.open, tree.path[g]]) };
      const isReadable = canBeRead(next);
      if (isReadable) opened = next;
      return isReadable;
    };
    if (!opens(largest) && !canBeRead(opened, 1)) continue;
    others.forEach(opens);
    return opened;
  }
  return folding;
}

/** Open the largest box of the class with most parameters, although its equals stay closed. */
export function withLargestBox(
  grouped: GroupedGraph,
  folding: Folding,
  hasMore: (g: number) => boolean,
  canBeRead: (folding: Folding) => boolean,
): Folding {
  const { tree, kind, parameters } = grouped;
  const size = (g: number) => parameters.numbers[g];
  const closed = foldedPlan(grouped, folding).nodes.flatMap(({ group }) => group?.paths ?? []);
  const boxes = closed.map((path) => tree.byPath.get(path) ?? 0).filter(hasMore);
  const total = (some: readonly number[]) => some.reduce((sum, g) => sum + size(g), 0);
  const alike = partsBy(boxes, (g) => kind[g] ?? tree.parent[g]);
  const [most = []] = alike.sort((a, b) => total(b) - total(a));
  if (most.length === 0) return folding;
  const [largest] = most.sort((a, b) => size(b) - size(a));
  const opened = { ...folding, open: new Set([...folding.open, tree.path[largest]]) };
  return canBeRead(opened) ? opened : folding;
}

/** The number of strips of modules in a picture; those of steps do not count. */
export function stripsOf(grouped: GroupedGraph, folding: Folding): number {
  const { nodes } = foldedPlan(grouped, folding);
  return nodes.filter(({ strip, group }) => strip && group && !isStep(group.paths[0])).length;
}

/** The number of items in a picture; each block of a strip counts. */
export function thingsIn(grouped: GroupedGraph, folding: Folding): number {
  const { nodes } = foldedPlan(grouped, folding);
  return nodes.reduce((sum, { strip }) => sum + (strip?.blocks.length ?? 1), 0);
}

/** Group items by key. */
function partsBy(items: readonly number[], keyOf: (item: number) => string | number): number[][] {
  return [...listsBy(items, keyOf).values()];
}

/** Per group, 1 if opening it shows more than one tile: it has submodules, and is more than a layer. */
export function withMore({ tree, graph, plumbing, role }: GroupedGraph): Uint8Array {
  const tiles = new Int32Array(tree.path.length);
  graph.nodes.forEach(({ kind }, v) => {
    if (isWork({ kind }) && plumbing[v] !== 1 && !isFollower(role[v])) tiles[tree.groupOf[v]]++;
  });
  for (let g = tiles.length - 1; g > 0; g--) tiles[tree.parent[g]] += tiles[g];
  const { start } = tree.children;
  return Uint8Array.from(tiles, (count, g) => (count > 1 && start[g + 1] > start[g] ? 1 : 0));
}

/** Per group, 1 if it is in or is a block of a strip. */
export function withinBlocks({ tree, runs }: GroupedGraph): Uint8Array {
  const isWithin = new Uint8Array(tree.path.length);
  for (const run of runs) for (const g of run) isWithin[g] = 1;
  for (let g = 1; g < isWithin.length; g++) isWithin[g] ||= isWithin[tree.parent[g]];
  return isWithin;
}
