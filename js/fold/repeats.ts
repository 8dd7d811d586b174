import { listsBy, valueAt } from "../maps";
import { isStep } from "../scene/module_class";
import { type GroupedEdges, type GroupTree, lastPart } from "./tree";

/** The fewest blocks of a strip; fewer are clear one by one, like the two or three of a ResNet stage. */
const LEAST_BLOCKS = 4;
/** The most that one of two alike blocks has in addition, as a share of it: T5's first block has a small table. */
const MOST_EXTRA = 0.25;
/** Container classes: two of them may compute different things. */
/** The most parameters of a layer with its normalisation. */
const MOST_OF_LAYER = 4;
export const HOLDERS = /^(Sequential|ModuleList|ModuleDict)$/;

/** A graph's edges, groups and operations. */
interface Operations extends GroupedEdges {
  /** Per node, its operation, "AddmmBackward0". */
  op: ArrayLike<string>;
}

/** The groups' classes and sizes. */
interface Kinds {
  /** Its class, null if unknown. */
  kind: ArrayLike<string | null>;
  /** Its parameters, and the number of their elements. */
  leaves: readonly (readonly number[])[];
  numbers: ArrayLike<number>;
  /** A parameter's shape as a word. */
  shapeOf: (leaf: number) => string;
}

interface Block {
  group: number;
  number: number;
}

/**
 * Find repeated blocks: numbered sibling groups ("layers/0", "layers/1", ...) with parameters, each
 * wired to the next, that are alike. Alike means the same class and parameters, of which one may have
 * a few more. Without a known class, list items must have the same size, operations and wiring. The
 * steps of a loop are always alike. Linear in the graph per level of groups. Returns lists of at least
 * `LEAST_BLOCKS` groups, in the order of their numbers.
 */
export function repeatedBlocks(graph: Operations, kinds: Kinds): number[][] {
  const { tree } = graph;
  const levels = new Map<number, Block[][]>();
  for (let parent = 0; parent < tree.path.length; parent++) {
    const { start, item } = tree.children;
    if (start[parent + 1] - start[parent] < LEAST_BLOCKS) continue;
    for (const named of byName(tree, item.subarray(start[parent], start[parent + 1])).values()) {
      if (named.length < LEAST_BLOCKS) continue;
      valueAt(levels, tree.depth[parent] + 1, () => []).push(named);
    }
  }
  return [...levels].flatMap(([depth, rows]) => {
    const closed = closedAt(tree, depth);
    const wired = wiredBoxes(graph, closed);
    let structure: string[] | null = null;
    const isAlike = (a: number, b: number) => {
      if (isStep(tree.path[a])) return true;
      const kind = kinds.kind[a];
      const { numbers } = kinds;
      if (Math.min(numbers[a], numbers[b]) === 0 || kind !== kinds.kind[b]) return false;
      if (kind !== null && !HOLDERS.test(kind))
        return hasAllOf(kinds, a, b) || hasAllOf(kinds, b, a) || grows(kinds, a, b);
      if (!isCounted(tree.path[a])) return false;
      structure ??= structures(graph, closed);
      return numbers[a] === numbers[b] && structure[a] === structure[b];
    };
    const follows = (last: Block, next: Block) =>
      next.number === last.number + 1 &&
      wired.has(last.group * tree.path.length + next.group) &&
      isAlike(last.group, next.group);
    return rows.flatMap((row) => runsIn(row, follows)).filter((run) => run.length >= LEAST_BLOCKS);
  });
}

/** Whether a group has all parameters of another, by their shapes, and only a few more. */
function hasAllOf({ leaves, numbers, shapeOf }: Kinds, more: number, less: number): boolean {
  if (numbers[more] - numbers[less] > MOST_EXTRA * numbers[more]) return false;
  const left = new Map<string, number>();
  const take = (id: number, change: number) => {
    const shape = shapeOf(id);
    const count = (left.get(shape) ?? 0) + change;
    left.set(shape, count);
    return count;
  };
  for (const id of leaves[more]) take(id, 1);
  return leaves[less].every((id) => take(id, -1) >= 0);
}

/** Whether two groups have as many parameters, at least half of them of the same shapes: a dense block's layers grow. */
function grows({ leaves, shapeOf }: Kinds, a: number, b: number): boolean {
  if (leaves[a].length !== leaves[b].length || leaves[a].length <= MOST_OF_LAYER) return false;
  const same = leaves[a].filter((id, i) => shapeOf(id) === shapeOf(leaves[b][i]));
  return 2 * same.length >= leaves[a].length;
}

/** Whether a group is a list item, "layers/7"; "layer3" is a name of its own. */
export function isCounted(path: string): boolean {
  return /^\d+$/.test(lastPart(path));
}

/** Per group, its ancestor or itself at this depth; -1 for none. */
function closedAt({ parent, depth }: GroupTree, level: number): Int32Array {
  const closed = new Int32Array(parent.length).fill(-1);
  for (let g = 1; g < closed.length; g++)
    closed[g] = depth[g] === level ? g : depth[g] > level ? closed[parent[g]] : -1;
  return closed;
}

/** Pairs of boxes with an edge between them, in either direction. */
function wiredBoxes({ source, target, tree }: Operations, closed: Int32Array): Set<number> {
  const wired = new Set<number>();
  const count = tree.path.length;
  for (let e = 0; e < source.length; e++) {
    const [a, b] = [closed[tree.groupOf[source[e]]], closed[tree.groupOf[target[e]]]];
    if (a >= 0 && b >= 0 && a !== b) wired.add(a * count + b).add(b * count + a);
  }
  return wired;
}

function runsIn(row: Block[], follows: (last: Block, next: Block) => boolean): number[][] {
  const runs: number[][] = [];
  let last: Block | null = null;
  for (const next of row.sort((a, b) => a.number - b.number)) {
    if (last && follows(last, next)) runs[runs.length - 1].push(next.group);
    else runs.push([next.group]);
    last = next;
  }
  return runs;
}

/** Sibling groups by name without the final number; groups without a number are left out. */
function byName(tree: GroupTree, siblings: Int32Array): Map<string, Block[]> {
  const numbered = Array.from(siblings).flatMap((group) => {
    const match = /^(.*?)(\d+)$/.exec(lastPart(tree.path[group]));
    return match ? { group, name: match[1], number: Number(match[2]) } : [];
  });
  return listsBy(numbered, ({ name }) => name);
}

/** Per closed group, its operations and inner edges, with names numbered within the groups. */
function structures({ source, target, tree, op }: Operations, closed: Int32Array): string[] {
  const { path, groupOf } = tree;
  const inner = path.map((one, g) => one.slice(path[Math.max(0, closed[g])].length));
  const ids = new Map<string, number>();
  const found: number[][] = path.map(() => []);
  const word = groupOf.map((g, v) => {
    const name = `${inner[g]} ${op[v]}`;
    const id = ids.get(name) ?? ids.size;
    ids.set(name, id);
    if (closed[g] >= 0) found[closed[g]].push(id);
    return id;
  });
  for (let e = 0; e < source.length; e++) {
    const box = closed[groupOf[source[e]]];
    if (box >= 0 && box === closed[groupOf[target[e]]])
      found[box].push(-1 - word[source[e]] * groupOf.length - word[target[e]]);
  }
  return found.map((numbers) => Float64Array.from(numbers).sort().join());
}
