import type { Layered } from "./dummies";

/** Reusable buffers for counting, one set per layered graph. */
export interface Counter {
  ends: Int32Array;
  tree: Int32Array;
}

export function makeCounter(layered: Layered): Counter {
  let widest = 1;
  const { start } = layered.ranks;
  for (let r = 0; r + 1 < start.length; r++) widest = Math.max(widest, start[r + 1] - start[r]);
  let leaves = 1;
  while (leaves < widest) leaves *= 2;
  return { ends: new Int32Array(layered.down.item.length), tree: new Int32Array(2 * leaves) };
}

/**
 * The crossings between rank r and the next. `order` lists the nodes by rank, `position` is each node's place in its
 * rank. Each inversion among the segments' lower ends, sorted by their upper ends, is a crossing.
 */
function crossingsBelow(
  layered: Layered,
  order: Int32Array,
  position: Int32Array,
  r: number,
  { ends, tree }: Counter,
): number {
  const { ranks, down } = layered;
  let k = 0;
  for (let i = ranks.start[r]; i < ranks.start[r + 1]; i++) {
    const v = order[i];
    const from = k;
    for (let j = down.start[v]; j < down.start[v + 1]; j++) ends[k++] = position[down.item[j]];
    sortPart(ends, from, k);
  }
  return k <= 24
    ? inversionsOfFew(ends, k)
    : inversions(ends, k, ranks.start[r + 2] - ranks.start[r + 1], tree);
}

export function crossings(
  layered: Layered,
  order: Int32Array,
  position: Int32Array,
  counter = makeCounter(layered),
): number {
  let sum = 0;
  for (let r = 0; r + 2 < layered.ranks.start.length; r++) {
    sum += crossingsBelow(layered, order, position, r, counter);
  }
  return sum;
}

function sortPart(ends: Int32Array, from: number, to: number): void {
  if (to - from > 32) {
    ends.subarray(from, to).sort();
    return;
  }
  for (let i = from + 1; i < to; i++) {
    const p = ends[i];
    let at = i;
    for (; at > from && ends[at - 1] > p; at--) ends[at] = ends[at - 1];
    ends[at] = p;
  }
}

/** Count by insertion sort; fastest for few. */
function inversionsOfFew(ends: Int32Array, k: number): number {
  let sum = 0;
  for (let i = 1; i < k; i++) {
    const p = ends[i];
    let at = i;
    for (; at > 0 && ends[at - 1] > p; at--) ends[at] = ends[at - 1];
    ends[at] = p;
    sum += i - at;
  }
  return sum;
}

/** Barth, Mutzel and Jünger's accumulator tree. */
function inversions(ends: Int32Array, k: number, size: number, tree: Int32Array): number {
  let leaves = 1;
  while (leaves < size) leaves *= 2;
  tree.fill(0, 0, 2 * leaves);
  let sum = 0;
  for (let i = 0; i < k; i++) {
    let at = ends[i] + leaves;
    tree[at]++;
    while (at > 1) {
      if ((at & 1) === 0) sum += tree[at + 1];
      at >>= 1;
      tree[at]++;
    }
  }
  return sum;
}
