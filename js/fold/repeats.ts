import { group, makeGraph } from "../layout/graph";
import { topological } from "../layout/rank";
import { isStep } from "../scene/module_class";
import { type GroupTree, lastPart } from "./tree";

/** The fewest blocks of a strip; fewer are clear one by one, like the two or three of a ResNet stage. */
const LEAST_BLOCKS = 4;
/** Blocks of one class are alike up to this difference in size: T5's first block has an extra small table. */
const ABOUT_AS_LARGE = 0.02;
/** Container classes: two of them may compute different things. */
const HOLDERS = /^(Sequential|ModuleList|ModuleDict)$/;

/** A graph's edges, groups and operations. */
interface Operations {
  source: ArrayLike<number>;
  target: ArrayLike<number>;
  tree: GroupTree;
  /** Per node, its operation, "AddmmBackward0". */
  op: ArrayLike<string>;
}

/** The groups' classes and sizes. */
interface Kinds {
  /** Its class, null if unknown. */
  kind: ArrayLike<string | null>;
  /** The number of its parameters' elements. */
  numbers: ArrayLike<number>;
}

interface Block {
  group: number;
  number: number;
}

/**
 * Find repeated blocks: numbered sibling groups ("layers/0", "layers/1", ...) with parameters, each wired to the next,
 * that are alike. Alike means the same class and about the same size. Without a known class, list items must have the
 * same size, operations and wiring. The steps of a loop are always alike. Linear in the graph per level of groups. Returns lists of at least `LEAST_BLOCKS`
 * groups, in the order of their numbers.
 */
export function repeatedBlocks(graph: Operations, kinds: Kinds): number[][] {
  const { tree } = graph;
  const levels = new Map<number, Block[][]>();
  for (let parent = 0; parent < tree.path.length; parent++) {
    const { start, item } = tree.children;
    if (start[parent + 1] - start[parent] < LEAST_BLOCKS) continue;
    for (const named of byName(tree, item.subarray(start[parent], start[parent + 1])).values()) {
      if (named.length < LEAST_BLOCKS) continue;
      const depth = tree.depth[parent] + 1;
      levels.set(depth, [...(levels.get(depth) ?? []), named]);
    }
  }
  return [...levels].flatMap(([depth, rows]) => {
    const closed = closedAt(tree, depth);
    const wired = wiredBoxes(graph, closed);
    let structure: string[] | null = null;
    const isAlike = (a: number, b: number) => {
      if (isStep(tree.path[a])) return true;
      const [kind, more, less] = [
        kinds.kind[a],
        Math.max(kinds.numbers[a], kinds.numbers[b]),
        Math.min(kinds.numbers[a], kinds.numbers[b]),
      ];
      if (less === 0 || kind !== kinds.kind[b]) return false;
      if (kind !== null && !HOLDERS.test(kind)) return more - less <= ABOUT_AS_LARGE * more;
      if (!isCounted(tree.path[a])) return false;
      structure ??= structures(graph, closed);
      return more === less && structure[a] === structure[b];
    };
    const follows = (last: Block, next: Block) =>
      next.number === last.number + 1 &&
      wired.has(last.group * tree.path.length + next.group) &&
      isAlike(last.group, next.group);
    return rows.flatMap((row) => runsIn(row, follows)).filter((run) => run.length >= LEAST_BLOCKS);
  });
}

/** Whether a group is a list item, "layers/7"; "layer3" is a name of its own. */
function isCounted(path: string): boolean {
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
function byName(tree: GroupTree, siblings: Int32Array) {
  const named = new Map<string, Block[]>();
  for (const g of siblings) {
    const match = /^(.*?)(\d+)$/.exec(lastPart(tree.path[g]));
    if (!match) continue;
    const known = named.get(match[1]);
    const block = { group: g, number: Number(match[2]) };
    if (known) known.push(block);
    else named.set(match[1], [block]);
  }
  return named;
}

/**
 * A hash (64 bits) of each closed group's content: equal for the same operations under the same inner names with the
 * same wiring.
 */
function structures({ source, target, tree, op }: Operations, closed: ArrayLike<number>): string[] {
  const n = tree.groupOf.length;
  const box = tree.groupOf.map((g) => closed[g]);
  const inner = Int32Array.from({ length: source.length }, (_, e) => e).filter(
    (e) => box[source[e]] >= 0 && box[source[e]] === box[target[e]],
  );
  const graph = makeGraph(
    n,
    inner.map((e) => source[e]),
    inner.map((e) => target[e]),
  );
  const words = new Map<string, number>();
  const hashOf = (word: string) => {
    let hash = words.get(word);
    if (hash === undefined) {
      hash = hashText(word);
      words.set(word, hash);
    }
    return hash;
  };
  const name = new Int32Array(tree.path.length);
  for (let g = 1; g < name.length; g++) {
    name[g] = closed[g] === g ? 0 : mix(name[tree.parent[g]], hashOf(lastPart(tree.path[g])));
  }
  const own = Int32Array.from({ length: n }, (_, v) => mix(name[tree.groupOf[v]], hashOf(op[v])));

  // A node's hash covers the nodes below and above it, so that shared inputs count.
  const order = topological(graph);
  const below = own.slice();
  const place = new Int32Array(inner.length);
  for (let i = n - 1; i >= 0; i--) {
    const v = order[i];
    for (let j = graph.out.start[v]; j < graph.out.start[v + 1]; j++) {
      const e = graph.out.item[j];
      below[v] = mix(below[v], below[graph.target[e]]);
      place[e] = j - graph.out.start[v];
    }
  }
  const all = below.slice();
  for (let i = 0; i < n; i++) {
    const v = order[i];
    let sum = 0;
    for (let j = graph.in.start[v]; j < graph.in.start[v + 1]; j++) {
      const e = graph.in.item[j];
      sum = (sum + mix(all[graph.source[e]], place[e])) | 0;
    }
    all[v] = mix(all[v], sum);
  }
  const members = group(tree.path.length, box);
  return tree.path.map((_, g) => {
    let first = 0;
    let second = 0;
    for (let i = members.start[g]; i < members.start[g + 1]; i++) {
      first = (first + mix(all[members.item[i]], 7)) | 0;
      second = (second + mix(all[members.item[i]], 11)) | 0;
    }
    return `${members.start[g + 1] - members.start[g]} ${first} ${second}`;
  });
}

function hashText(text: string): number {
  let hash = text.length;
  for (let i = 0; i < text.length; i++) hash = mix(hash, text.charCodeAt(i));
  return hash;
}

/** Hash two numbers to 32 bits; their order matters. */
function mix(a: number, b: number): number {
  let h = Math.imul(a, 0x9e3779b1) ^ Math.imul(b + 0x7f4a7c15, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  h = Math.imul(h ^ (h >>> 12), 0x297a2d39);
  return h ^ (h >>> 15);
}
