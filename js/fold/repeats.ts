import { group, makeGraph } from "../layout/graph";
import { topological } from "../layout/rank";
import { type GroupTree, lastPart } from "./tree";

/** A graph's edges, its groups and what each node does. */
interface Operations {
  source: ArrayLike<number>;
  target: ArrayLike<number>;
  tree: GroupTree;
  /** Per graph node, what makes two nodes alike: its operation, "AddmmBackward0". */
  op: ArrayLike<string>;
}

/**
 * Finds repeated blocks: sibling groups with names that count on ("layers/0", "layers/1", ...), each wired straight to
 * the next, that hold the same operations wired in the same way.
 *
 * Args:
 *   graph: edges, groups and operations.
 *   closed: per group, the closed box that hides it (perhaps itself), -1 where its content is shown.
 *   apart: paths of groups never to be folded with others.
 *
 * Returns lists of two groups or more, each in the order of the names' numbers.
 */
export function repeatedBlocks(
  graph: Operations,
  closed: ArrayLike<number>,
  apart: ReadonlySet<string>,
): number[][] {
  const { source, target, tree } = graph;
  const structure = structures(graph, closed);
  const wired = new Set<number>();
  const count = tree.path.length;
  for (let e = 0; e < source.length; e++) {
    const [a, b] = [closed[tree.groupOf[source[e]]], closed[tree.groupOf[target[e]]]];
    if (a >= 0 && b >= 0 && a !== b) wired.add(a * count + b).add(b * count + a);
  }
  const found: number[][] = [];
  for (let parent = 0; parent < count; parent++) {
    const siblings = tree.children.item
      .subarray(tree.children.start[parent], tree.children.start[parent + 1])
      .filter((g) => closed[g] === g && !apart.has(tree.path[g]));
    for (const numbered of byName(tree, siblings).values()) {
      numbered.sort((a, b) => a.number - b.number);
      let run = numbered.slice(0, 1);
      for (const next of [...numbered.slice(1), null]) {
        const last = run[run.length - 1];
        if (
          next &&
          next.number === last.number + 1 &&
          structure[next.group] === structure[last.group] &&
          wired.has(last.group * count + next.group)
        ) {
          run.push(next);
          continue;
        }
        if (run.length > 1) found.push(run.map((block) => block.group));
        if (next) run = [next];
      }
    }
  }
  return found;
}

/** Sibling groups by their names without the number at the end; a name without one is left out. */
function byName(tree: GroupTree, siblings: Int32Array) {
  const named = new Map<string, { group: number; number: number }[]>();
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
 * A text per closed group that two groups share when their contents are alike: the same operations under the same
 * inner names, with the same wiring between them. It is a hash (64 bits), so in principle others may share it.
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

  // Each node is told by what lies below it, then also by what lies above it, so that a shared input shows.
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

/** A whole number of 32 bits from two; the order of the two matters. */
function mix(a: number, b: number): number {
  let h = Math.imul(a, 0x9e3779b1) ^ Math.imul(b + 0x7f4a7c15, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  h = Math.imul(h ^ (h >>> 12), 0x297a2d39);
  return h ^ (h >>> 15);
}
