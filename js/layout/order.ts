import { valueAt } from "../maps";
import type { Layered } from "./rank";
import { reinsertRuns } from "./reinsert";

/** The effort for improvement. */
export interface Effort {
  visits: number;
  /** Elementary steps of reinsertion. */
  steps: number;
  /** The number of equally good orders to keep for the caller. */
  choices: number;
}

/** For a graph without boxes. */
const FULL_EFFORT: Effort = { visits: 30_000, steps: 1_200_000, choices: 6 };

/** In larger graphs (nodes and dummies), reinsertion everywhere takes too long. */
const LARGE = 8_000;

/** From this size on, even sweeps take too long. */
const HUGE = 100_000;

/** The most node visits of smoothing. */
const SMOOTHING = 4_000_000;

const CHOICE_SIZE = 800;

/** With more crossings than this per node or dummy, sweeps do not see enough of the whole. */
const TANGLED = 1;

/** Larger graphs are rarely ordered again. */
const LARGEST_KNOWN = 2_000;
/** The most known graphs. */
const MOST_KNOWN = 200;

/** The orders of the last graphs: a picture is laid out in several sizes, whose orders are the same. */
const known = new Map<string, Int32Array[]>();

/** The nodes by rank, from left to right, with few crossings; the best order or several. Do not change them. */
export function orderRanks(layered: Layered, effort = FULL_EFFORT): Int32Array[] {
  const { size, ranks, down } = layered;
  if (size > LARGEST_KNOWN) return searched(layered, effort);
  if (known.size >= MOST_KNOWN) known.clear();
  const key = [...Object.values(effort), ranks.start, ranks.item, down.start, down.item].join(" ");
  return valueAt(known, key, () => searched(layered, effort));
}

/** Two starts are roughly improved, then swept while the effort lasts, the better one first. */
function searched(layered: Layered, effort: Effort): Int32Array[] {
  const search = new Search(layered, effort);
  const starts = [() => depthFirst(layered), () => breadthFirst(layered)];
  const tried: { order: Int32Array; count: number }[] = [];
  for (const start of starts) {
    const order = start();
    const count = search.rough(order);
    if (count > TANGLED * layered.size) {
      search.untangle(start());
      return search.tidy();
    }
    // An order that two starts agree on is rarely improved.
    const isAgreed = count === search.fewest && tried[0]?.count === count;
    tried.push({ order, count });
    if ((count === 0 || isAgreed) && layered.size > CHOICE_SIZE) return search.tidy();
  }
  // Sorting is stable: on a tie, the start that follows the input comes first.
  tried.sort((a, b) => a.count - b.count);
  for (const { order } of tried) {
    if (search.fewest === 0 || search.isSpent()) break;
    search.improve(order);
  }
  return search.tidy();
}

/** The best order so far, and the remaining effort. */
class Search {
  best: Int32Array[] = [];
  fewest = Infinity;
  private sweeps: number;
  private steps: number;
  private readonly counter: Counter;

  constructor(
    private readonly layered: Layered,
    private readonly effort: Effort,
  ) {
    this.counter = makeCounter(layered);
    this.sweeps = Math.max(layered.size > HUGE ? 2 : 5, effort.visits / layered.size);
    this.steps = effort.steps;
  }

  isSpent(): boolean {
    return this.sweeps <= 0;
  }

  /** A start's crossings after one sweep. The start without a sweep may be better, so try that too. */
  rough(order: Int32Array): number {
    const { layered } = this;
    const position = positions(layered, order);
    greedySwitch(layered, order, position, 2);
    const count = this.keep(order, position);
    if (count === 0) return 0;
    if (layered.size <= LARGE && count <= TANGLED * layered.size) {
      const copy = order.slice();
      if (this.reinsert(copy, position.slice(), 0.15) === 0) return 0;
    }
    sweep(layered, order, position, true, false);
    greedySwitch(layered, order, position, 3);
    return this.keep(order, position);
  }

  /** For tangled graphs: smoothing, which leaves few large faults for sweeps and many small ones for sifting. */
  untangle(order: Int32Array): void {
    const { layered } = this;
    smooth(layered, order, Math.min(40, Math.ceil(SMOOTHING / layered.size)));
    const position = positions(layered, order);
    greedySwitch(layered, order, position, 10);
    this.keep(order, position);
    this.sweepOn(order, position, 2);
    const [best] = this.best;
    const place = positions(layered, best);
    this.steps -= sift(layered, best, place, this.steps / 4);
    this.fewest = crossings(layered, best, place, this.counter);
  }

  /** Sweep until it stops helping, then reinsert and switch in turn. */
  improve(order: Int32Array): void {
    const position = positions(this.layered, order);
    const kept = this.sweepOn(order, position, 3);
    let count = crossings(this.layered, kept, positions(this.layered, kept), this.counter);
    for (let k = 0; k < 6 && count > 0; k++) {
      const now = this.reinsert(kept, positions(this.layered, kept), 0.5);
      if (now >= count) break;
      count = now;
    }
  }

  /** Sweep and switch until `patience` rounds in a row do not help; returns the best order. */
  private sweepOn(order: Int32Array, position: Int32Array, patience: number): Int32Array {
    let kept = order.slice();
    let count = Infinity;
    for (let k = 0, stale = 0; k < 12 && stale < patience && count > 0 && this.sweeps-- > 0; k++) {
      sweep(this.layered, order, position, k % 2 === 1, k % 4 < 2);
      greedySwitch(this.layered, order, position, 3);
      stale++;
      const now = this.keep(order, position);
      if (now >= count) continue;
      count = now;
      kept = order.slice();
      stale = 0;
    }
    return kept;
  }

  /** The best orders, with hanging runs next to their siblings. */
  tidy(): Int32Array[] {
    if (this.layered.size > LARGE) return this.best;
    return this.best.map((best) => {
      const order = best.slice();
      const count = this.reinsert(order, positions(this.layered, order), 0.5);
      return count <= this.fewest ? order : best;
    });
  }

  /** Reinsert with a share of the remaining effort, then switch; returns the crossings. */
  private reinsert(order: Int32Array, position: Int32Array, share: number): number {
    const effort = this.steps * share;
    this.steps -= effort - reinsertRuns(this.layered, order, position, effort);
    greedySwitch(this.layered, order, position, 3);
    return this.keep(order, position);
  }

  private hasRoom(): boolean {
    return this.layered.size <= CHOICE_SIZE && this.best.length < this.effort.choices;
  }

  private keep(order: Int32Array, position: Int32Array): number {
    const count = crossings(this.layered, order, position, this.counter);
    if (count < this.fewest) {
      this.fewest = count;
      this.best = [order.slice()];
    } else if (count === this.fewest && this.hasRoom()) {
      const isNew = this.best.every((other) => other.some((v, i) => v !== order[i]));
      if (isNew) this.best.push(order.slice());
    }
    return count;
  }
}

/**
 * An initial order: depth-first from the top, each node appended to its rank when reached. Trees have no crossings, and
 * the steps of an unrolled loop look alike, which sweeps alone do not achieve.
 */
function depthFirst(layered: Layered): Int32Array {
  const { size, ranks, down } = layered;
  const order = new Int32Array(size);
  const next = ranks.start.slice(0, -1);
  const seen = new Uint8Array(size);
  const stack = new Int32Array(size);
  const child = down.start.slice(0, -1);
  for (const root of ranks.item) {
    if (seen[root]) continue;
    seen[root] = 1;
    order[next[layered.rank[root]]++] = root;
    stack[0] = root;
    let top = 0;
    while (top >= 0) {
      const v = stack[top];
      if (child[v] === down.start[v + 1]) {
        top--;
        continue;
      }
      const w = down.item[child[v]++];
      if (seen[w]) continue;
      seen[w] = 1;
      order[next[layered.rank[w]]++] = w;
      stack[++top] = w;
    }
  }
  return order;
}

/** Breadth-first from the bottom: each rank is in the order in which the rank below reaches it. */
function breadthFirst(layered: Layered): Int32Array {
  const { size, ranks, up } = layered;
  const order = new Int32Array(size);
  const seen = new Uint8Array(size);
  for (let r = ranks.start.length - 2; r >= 0; r--) {
    let at = ranks.start[r];
    if (r + 2 < ranks.start.length) {
      for (let i = ranks.start[r + 1]; i < ranks.start[r + 2]; i++) {
        const v = order[i];
        for (let j = up.start[v]; j < up.start[v + 1]; j++) {
          const u = up.item[j];
          if (!seen[u]) order[at++] = u;
          seen[u] = 1;
        }
      }
    }
    for (let i = ranks.start[r]; i < ranks.start[r + 1]; i++) {
      if (!seen[ranks.item[i]]) order[at++] = ranks.item[i];
    }
  }
  return order;
}

/** Nodes move slightly further than the mean of their neighbours, which converges faster. */
const BEYOND = 1.3;

/**
 * Order all ranks at once: each node moves to the mean of its neighbours again and again, while every rank stays
 * centred and equally wide. Connected nodes come together over many ranks, while a sweep sees one rank at a time.
 * Improves the given order in place.
 */
export function smooth(
  { size, ranks, up, down }: Layered,
  order: Int32Array,
  rounds: number,
): void {
  const depth = ranks.start.length - 1;
  const x = new Float64Array(size);
  const sides = [up, down];
  for (let r = 0; r < depth; r++) {
    const [from, to] = [ranks.start[r], ranks.start[r + 1]];
    for (let i = from; i < to; i++) x[order[i]] = (i - from + 0.5) / (to - from) - 0.5;
  }
  for (let k = 0; k < rounds; k++) {
    for (let i = 0; i < depth; i++) smoothRank(k % 2 ? depth - 1 - i : i);
  }
  for (let r = 0; r < depth; r++) {
    const from = ranks.start[r];
    const count = ranks.start[r + 1] - from;
    sortByKey(order.subarray(from, from + count), count, x, false);
  }

  function smoothRank(r: number): void {
    const [from, to] = [ranks.start[r], ranks.start[r + 1]];
    let mean = 0;
    for (let i = from; i < to; i++) {
      const v = order[i];
      let sum = 0;
      let degree = 0;
      for (const { start, item } of sides) {
        degree += start[v + 1] - start[v];
        for (let j = start[v]; j < start[v + 1]; j++) sum += x[item[j]];
      }
      if (degree > 0) x[v] += BEYOND * (sum / degree - x[v]);
      mean += x[v] / (to - from);
    }
    let spread = 0;
    for (let i = from; i < to; i++) {
      x[order[i]] -= mean;
      spread += x[order[i]] * x[order[i]];
    }
    // Evenly spread places from -1/2 to 1/2 have a variance of 1/12.
    const scale = spread > 1e-12 ? Math.sqrt((to - from) / 12 / spread) : 1;
    for (let i = from; i < to; i++) x[order[i]] *= scale;
  }
}

/**
 * Sifting: move each node to the place in its rank with the fewest crossings, past others that do not gain by
 * themselves, which switching cannot do. Rounds continue until none gains or `effort` (compared pairs of segments) is
 * spent; returns what was spent.
 */
export function sift(
  { ranks, up, down }: Layered,
  order: Int32Array,
  position: Int32Array,
  effort: number,
): number {
  let spent = 0;
  for (let gained = true; gained && spent < effort; ) {
    gained = false;
    for (let r = 0; r + 1 < ranks.start.length && spent < effort; r++) {
      const from = ranks.start[r];
      const row = order.subarray(from, ranks.start[r + 1]);
      for (const v of row.slice()) if (siftNode(row, v)) gained = true;
    }
  }
  return spent;

  function siftNode(row: Int32Array, v: number): boolean {
    const at = position[v];
    let to = at;
    let most = 0;
    for (const step of [1, -1]) {
      let gain = 0;
      for (let i = at + step; i >= 0 && i < row.length; i += step) {
        const here = gainOn(up, position, v, row[i]) + gainOn(down, position, v, row[i]);
        gain += step * here;
        spent += 4;
        if (gain > most) {
          most = gain;
          to = i;
        }
      }
    }
    const step = Math.sign(to - at);
    for (let i = at; i !== to; i += step) {
      row[i] = row[i + step];
      position[row[i]] = i;
    }
    row[to] = v;
    position[v] = to;
    return most > 0;
  }
}

/** The places of all nodes in their ranks. */
export function positions({ ranks, size }: Layered, order: Int32Array): Int32Array {
  const position = new Int32Array(size);
  for (let r = 0; r + 1 < ranks.start.length; r++) {
    for (let i = ranks.start[r]; i < ranks.start[r + 1]; i++)
      position[order[i]] = i - ranks.start[r];
  }
  return position;
}

/** One barycentre sweep: sort each rank by the mean place of its neighbours in the previous rank; others stay. */
export function sweep(
  { ranks, up, down, size }: Layered,
  order: Int32Array,
  position: Int32Array,
  downwards: boolean,
  turnTies: boolean,
): void {
  const depth = ranks.start.length - 1;
  const { start, item } = downwards ? up : down;
  const key = new Float64Array(size);
  const sorted = new Int32Array(size);
  for (let k = 1; k < depth; k++) {
    const r = downwards ? k : depth - 1 - k;
    const from = ranks.start[r];
    const to = ranks.start[r + 1];
    let count = 0;
    for (let i = from; i < to; i++) {
      const v = order[i];
      const degree = start[v + 1] - start[v];
      if (degree === 0) continue;
      let sum = 0;
      for (let j = start[v]; j < start[v + 1]; j++) sum += position[item[j]];
      key[v] = sum / degree;
      sorted[count++] = v;
    }
    sortByKey(sorted, count, key, turnTies);
    for (let i = from, next = 0; i < to; i++) {
      const v = order[i];
      if (start[v + 1] > start[v]) order[i] = sorted[next++];
      position[order[i]] = i - from;
    }
  }
}

/** Stable sort of the first `count` items; insertion for the few, the built-in merge sort for the many. */
function sortByKey(items: Int32Array, count: number, key: Float64Array, turnTies: boolean): void {
  if (turnTies) items.subarray(0, count).reverse();
  if (count > 64) {
    const some = Array.from(items.subarray(0, count)).sort((a, b) => key[a] - key[b]);
    for (let i = 0; i < count; i++) items[i] = some[i];
    return;
  }
  for (let i = 1; i < count; i++) {
    const v = items[i];
    let at = i;
    for (; at > 0 && key[items[at - 1]] > key[v]; at--) items[at] = items[at - 1];
    items[at] = v;
  }
}

/** Greedy switching: swap neighbours in a rank while that removes crossings; others keep the input's order. */
export function greedySwitch(
  layered: Layered,
  order: Int32Array,
  position: Int32Array,
  rounds: number,
): void {
  const { ranks } = layered;
  const depth = ranks.start.length - 1;
  let dirty = new Uint8Array(depth).fill(1);
  for (let round = 0; round < rounds; round++) {
    const next = new Uint8Array(depth);
    let any = false;
    for (let r = 0; r < depth; r++) {
      if (!dirty[r] || !switchRank(layered, order, position, r)) continue;
      any = true;
      next[r] = 1;
      if (r > 0) next[r - 1] = 1;
      if (r + 1 < depth) next[r + 1] = dirty[r + 1] = 1;
    }
    if (!any) break;
    dirty = next;
  }
}

function switchRank(layered: Layered, order: Int32Array, position: Int32Array, r: number): boolean {
  const { ranks, up, down } = layered;
  const from = ranks.start[r];
  let switched = false;
  for (let i = from; i + 1 < ranks.start[r + 1]; i++) {
    const a = order[i];
    const b = order[i + 1];
    const gain = gainOn(up, position, a, b) + gainOn(down, position, a, b);
    if (gain <= 0) continue;
    order[i] = b;
    order[i + 1] = a;
    position[b] = i - from;
    position[a] = i + 1 - from;
    switched = true;
  }
  return switched;
}

/** The crossings on one side with a before b, minus those with b before a. */
function gainOn(
  { start, item }: Layered["up"],
  position: Int32Array,
  a: number,
  b: number,
): number {
  let gain = 0;
  for (let i = start[a]; i < start[a + 1]; i++) {
    const p = position[item[i]];
    for (let j = start[b]; j < start[b + 1]; j++) {
      const q = position[item[j]];
      if (p > q) gain++;
      else if (p < q) gain--;
    }
  }
  return gain;
}

/** Reusable buffers for counting, one set per layered graph. */
interface Counter {
  ends: Int32Array;
  tree: Int32Array;
}

function makeCounter(layered: Layered): Counter {
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
