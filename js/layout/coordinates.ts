import { group } from "./graph";
import type { Layered } from "./rank";
import type { Gaps, Reach, Shifts } from "./types";

const SPINE_WEIGHT = 1e6;

/** Smaller movements do not count, px. */
const STILL = 0.01;

/**
 * The least distance between neighbours, a left of b, in half pixels so that rounding keeps it. Two boxes with a line
 * between them are still `nodeGap` apart.
 */
function separation(
  n: number,
  { left, right }: Reach,
  { nodeGap, edgeGap }: Pick<Gaps, "nodeGap" | "edgeGap">,
  a: number,
  b: number,
): number {
  const boxes = (a < n ? 1 : 0) + (b < n ? 1 : 0);
  const gap = boxes === 2 ? nodeGap : boxes === 1 ? Math.max(edgeGap, nodeGap / 2) : edgeGap;
  return Math.ceil(2 * (right[a] + left[b] + gap)) / 2;
}

/**
 * The x of every node and dummy, px. The spine starts on one vertical line. Sweeps down and up then pull each node to
 * its neighbours, with an exact isotonic regression per rank. At last, runs become straight if possible. `reach` has an
 * entry per node and dummy; `shifts` are offsets between neighbours that should be aligned.
 */
export function coordinates(
  layered: Layered,
  order: Int32Array,
  reach: Reach,
  spine: Uint8Array,
  gaps: Pick<Gaps, "nodeGap" | "edgeGap">,
  shifts?: Shifts,
): Float64Array {
  return new Coordinates(layered, order, reach, spine, gaps, shifts).solve();
}

class Coordinates {
  private readonly depth: number;
  private readonly place: Int32Array;
  /** Per position in the order, the least distance to the left neighbour. */
  private readonly apart: Float64Array;
  private readonly x: Float64Array;
  private readonly wish: Float64Array;
  private readonly weight: Float64Array;
  private readonly scratch: ReturnType<typeof makePoolScratch>;
  /** The x that each node's run prefers, once there are runs. */
  private runs: Targets | undefined;

  constructor(
    private readonly layered: Layered,
    private readonly order: Int32Array,
    reach: Reach,
    private readonly spine: Uint8Array,
    gaps: Pick<Gaps, "nodeGap" | "edgeGap">,
    private readonly shifts?: Shifts,
  ) {
    const { n, size, ranks } = layered;
    this.depth = ranks.start.length - 1;
    this.place = new Int32Array(size);
    for (let i = 0; i < size; i++) this.place[order[i]] = i;
    this.apart = new Float64Array(size);
    for (let i = 1; i < size; i++)
      this.apart[i] = separation(n, reach, gaps, order[i - 1], order[i]);
    this.x = new Float64Array(size);
    let widest = 0;
    for (let r = 0; r < this.depth; r++)
      widest = Math.max(widest, ranks.start[r + 1] - ranks.start[r]);
    this.wish = new Float64Array(widest);
    this.weight = new Float64Array(widest);
    this.scratch = makePoolScratch(widest);
  }

  solve(): Float64Array {
    const { layered, order, place, apart, x, spine, shifts, depth } = this;
    const { size } = layered;
    const placing = { layered, order, place, apart, x, spine };
    for (let r = 0; r < depth; r++) this.pushFromSpine(r);
    this.sweepBothWays(size > 100_000 ? 3 : size > 8_000 ? 5 : 10);
    this.untilStill(2, () => {
      for (let r = 0; r < depth; r++) this.settle(r, true, true, x, x);
      for (let r = depth - 1; r >= 0; r--) this.settle(r, true, true, x, x);
      straighten(placing, findRuns(layered, x, shifts));
    });
    this.untilStill(size > 8_000 ? 1 : 3, () => {
      const found = findRuns(layered, x, shifts);
      this.runs = runTargets(found, x, spine);
      for (let r = 0; r < depth; r++) this.settle(r, true, true, x, x);
      straighten(placing, found);
    });
    pushOut(placing, findRuns(layered, x, shifts));
    return x;
  }

  /** Repeat a step up to `rounds` times, or until nothing moves. */
  private untilStill(rounds: number, step: () => void): void {
    const { x } = this;
    for (let k = 0; k < rounds; k++) {
      const before = x.slice();
      step();
      if (x.every((value, v) => Math.abs(value - before[v]) < STILL)) return;
    }
  }

  /** Initial placement: pack each side of the spine in its order. */
  private pushFromSpine(r: number): void {
    const { x, order, apart, spine } = this;
    const { ranks } = this.layered;
    const from = ranks.start[r];
    const to = ranks.start[r + 1];
    let middle = from;
    for (let i = from; i < to; i++) if (spine[order[i]]) middle = i;
    for (let i = middle + 1; i < to; i++) x[order[i]] = x[order[i - 1]] + apart[i];
    for (let i = middle - 1; i >= from; i--) x[order[i]] = x[order[i + 1]] - apart[i + 1];
  }

  /** Sweep down and up, each rank after the one before it; skip a rank if nothing changed since its last sweep. */
  private sweepBothWays(rounds: number): void {
    const { x, depth } = this;
    const down = x;
    const up = x.slice();
    let movedDown = new Uint8Array(depth).fill(1);
    let movedUp = movedDown.slice();
    for (let k = 0; k < rounds && movedUp.includes(1); k++) {
      movedDown = this.follow(1, down, up, movedUp);
      movedUp = this.follow(-1, up, down, movedDown);
    }
    x.set(up);
  }

  /** Sweep from one end into `to`, given the last sweep's places in the other direction, and what it moved. */
  private follow(step: 1 | -1, to: Float64Array, from: Float64Array, moved: Uint8Array) {
    const { order, depth } = this;
    const { ranks } = this.layered;
    const result = new Uint8Array(depth);
    const first = step > 0 ? 0 : depth - 1;
    if (moved[first]) {
      for (let i = ranks.start[first]; i < ranks.start[first + 1]; i++)
        to[order[i]] = from[order[i]];
      result[first] = 1;
    }
    for (let k = 1; k < depth; k++) {
      const r = first + k * step;
      if (moved[r] || result[r - step])
        result[r] = this.settle(r, step > 0, step < 0, from, to) ? 1 : 0;
    }
    return result;
  }

  /**
   * Move rank r as close to its neighbours above or below as order and gaps allow. `from` has its places, `to` its
   * neighbours' and its new ones. Returns whether it moved.
   */
  private settle(
    r: number,
    useUp: boolean,
    useDown: boolean,
    from: Float64Array,
    to: Float64Array,
  ): boolean {
    const { order, apart, spine, wish, weight, scratch, runs, shifts, layered } = this;
    const { n, ranks } = this.layered;
    const start = ranks.start[r];
    const count = ranks.start[r + 1] - start;
    if (count === 1 && spine[order[start]]) return false;
    for (let i = 0; i < count; i++) {
      const v = order[start + i];
      let sum = 0;
      let total = 0;
      if (spine[v]) {
        total = SPINE_WEIGHT;
      } else {
        for (let side = 0; side < 2; side++) {
          if (!(side === 0 ? useUp : useDown)) continue;
          const { start: first, item } = side === 0 ? layered.up : layered.down;
          const shift = side === 0 ? shifts?.up : shifts?.down;
          for (let j = first[v]; j < first[v + 1]; j++) {
            const w = item[j];
            const pull = v < n ? (w < n ? 1 : 2) : w < n ? 2 : 8;
            sum += pull * (shift ? to[w] + shift[j] : to[w]);
            total += pull;
          }
        }
      }
      if (runs) {
        sum += runs.weight[v] * runs.x[v];
        total += runs.weight[v];
      }
      // A node without neighbours on this side stays unless one with neighbours needs the room.
      wish[i] = spine[v] ? 0 : total > 0 ? sum / total : from[v];
      weight[i] = total > 0 ? total : 0.01;
    }
    if (count > 1) isotonic(count, wish, weight, apart.subarray(start + 1, start + count), scratch);
    let moved = false;
    for (let i = 0; i < count; i++) {
      const v = order[start + i];
      if (Math.abs(to[v] - wish[i]) > STILL) moved = true;
      to[v] = wish[i];
    }
    return moved;
  }
}

/** The data that the steps of placing share. */
interface Placing {
  layered: Layered;
  /** The nodes by rank, from left to right, and each node's position. */
  order: Int32Array;
  place: Int32Array;
  /** Per position, the least distance to the left neighbour, px. */
  apart: Float64Array;
  x: Float64Array;
  spine: Uint8Array;
}

/** A run that would bend more than this to be straight is cut, px. */
const EXTENT = 40;

/**
 * Straighten nearly straight runs by pushing outwards: on each side of the spine, a run moves to its outermost place
 * and pushes everything beyond. Runs go from the spine outwards, so one pass is enough.
 */
function pushOut({ layered, order, place, apart, x, spine }: Placing, runs: Runs): void {
  const { size, rank, ranks } = layered;
  const { head, following } = pieces(runs, x, spine);
  pushSide(1);
  pushSide(-1);

  function neighbour(v: number, step: number): number {
    const at = place[v] + step;
    return at >= ranks.start[rank[v]] && at < ranks.start[rank[v] + 1] ? order[at] : -1;
  }

  function pushSide(side: number): void {
    const isHere = (v: number) => v >= 0 && x[v] < 0 === side < 0;
    // Per piece (by its head), how many of its nodes wait for an inner piece.
    const waiting = new Int32Array(size);
    const done = new Uint8Array(size);
    const queue: number[] = [];
    for (let v = 0; v < size; v++) if (isHere(v) && isHere(neighbour(v, -side))) waiting[head[v]]++;
    for (let v = 0; v < size; v++) if (isHere(v) && head[v] === v && !waiting[v]) queue.push(v);
    for (let next = 0, scan = 0; ; ) {
      while (next < queue.length) settle(queue[next++]);
      // Pieces that wait for each other are split one by one.
      while (scan < size && (done[scan] || !isHere(scan) || isSingle(scan))) scan++;
      if (scan === size) break;
      takeApart(head[scan]);
    }

    function isSingle(v: number): boolean {
      return head[v] === v && following[v] < 0;
    }

    function takeApart(first: number): void {
      for (let v = first; v >= 0; ) {
        const next = following[v];
        head[v] = v;
        following[v] = -1;
        const inner = neighbour(v, -side);
        waiting[v] = isHere(inner) && !done[inner] ? 1 : 0;
        if (!waiting[v]) queue.push(v);
        v = next;
      }
    }

    function settle(first: number): void {
      let out = 0;
      for (let v = first; v >= 0; v = following[v]) {
        out = Math.max(out, side * x[v]);
        const inner = neighbour(v, -side);
        if (isHere(inner))
          out = Math.max(out, side * x[inner] + apart[place[side > 0 ? v : inner]]);
      }
      for (let v = first; v >= 0; v = following[v]) {
        x[v] = side * out;
        done[v] = 1;
        const outer = neighbour(v, side);
        if (isHere(outer) && --waiting[head[outer]] === 0) queue.push(head[outer]);
      }
    }
  }
}

/** Cut runs where they leave or cross the spine, or spread too far; a piece is named by its first node. */
function pieces({ next, heads }: Runs, x: Float64Array, spine: Uint8Array) {
  const head = new Int32Array(x.length);
  const following = next.slice();
  for (const start of heads) {
    let first = start;
    let [least, most] = [x[start], x[start]];
    head[start] = start;
    for (let u = start, v = next[start]; v >= 0; u = v, v = next[v]) {
      const isCut = spine[u] || spine[v] || x[u] < 0 !== x[v] < 0;
      if (isCut || Math.max(most, x[v]) - Math.min(least, x[v]) > EXTENT) {
        following[u] = -1;
        first = v;
        least = most = x[v];
      }
      head[v] = first;
      least = Math.min(least, x[v]);
      most = Math.max(most, x[v]);
    }
  }
  return { head, following };
}

/** Make runs vertical, longest first, at their mean place if they have room, else in as few pieces as possible. */
function straighten(
  { layered, order, place, apart, x, spine }: Placing,
  { next, heads }: Runs,
): void {
  const { ranks } = layered;
  for (const first of heads) {
    for (let head = first; head >= 0; ) head = align(head);
  }

  /** Align as much of the run as has room, from `head` down, and return where the rest begins, or -1. */
  function align(head: number): number {
    let low = -Infinity;
    let high = Infinity;
    let sum = 0;
    let count = 0;
    let held = Number.NaN;
    let end = head;
    for (; end >= 0; end = next[end]) {
      const at = place[end];
      const r = layered.rank[end];
      const left = at > ranks.start[r] ? x[order[at - 1]] + apart[at] : -Infinity;
      const right = at + 1 < ranks.start[r + 1] ? x[order[at + 1]] - apart[at + 1] : Infinity;
      const newLow = Math.max(low, left);
      const newHigh = Math.min(high, right);
      if (newLow > newHigh + 1e-6) break;
      if (spine[end]) held = x[end];
      low = newLow;
      high = newHigh;
      sum += x[end];
      count++;
    }
    // Only rounding leaves a node without room; it stays.
    if (count === 0) return next[head];
    const wish = Number.isNaN(held) ? sum / count : held;
    const to = Math.max(low, Math.min(high, wish));
    if (Number.isNaN(held) || to === held) for (let v = head; v !== end; v = next[v]) x[v] = to;
    return end;
  }
}

/** Paths to draw as vertical lines: each node and the next are each other's only or nearest neighbour. */
export interface Runs {
  /** The next node of the run, or -1. */
  next: Int32Array;
  /** First nodes of all runs, the longest run first. */
  heads: Int32Array;
}

function findRuns(layered: Layered, x: Float64Array, shifts?: Shifts): Runs {
  const { size, ranks } = layered;
  const next = links(layered, x, shifts);
  const hasPrevious = new Uint8Array(size);
  for (const w of next) if (w >= 0) hasPrevious[w] = 1;
  const shortness = new Int32Array(size).fill(-1);
  const depth = ranks.start.length - 1;
  for (let i = 0; i < size; i++) {
    const v = ranks.item[i];
    if (hasPrevious[v]) continue;
    let length = 1;
    for (let w = next[v]; w >= 0; w = next[w]) length++;
    shortness[v] = depth - length;
  }
  return { next, heads: group(depth, shortness).item };
}

interface Targets {
  x: Float64Array;
  /** Each node's weight: a long run has more. */
  weight: Float64Array;
}

/** Per node, the x of its vertical run: the middle of its extent, or the spine's x if the run touches it. */
function runTargets({ next, heads }: Runs, x: Float64Array, spine: Uint8Array): Targets {
  const targets = new Float64Array(x.length);
  const weight = new Float64Array(x.length);
  for (const head of heads) {
    let least = Infinity;
    let most = -Infinity;
    let held = Number.NaN;
    let length = 0;
    for (let v = head; v >= 0; v = next[v]) {
      length++;
      least = Math.min(least, x[v]);
      most = Math.max(most, x[v]);
      if (spine[v]) held = x[v];
    }
    const to = Number.isNaN(held) ? (least + most) / 2 : held;
    for (let v = head; v >= 0; v = next[v]) {
      targets[v] = to;
      weight[v] = length > 1 ? 10 * Math.min(length, 30) : 0;
    }
  }
  return { x: targets, weight };
}

/** How far apart two neighbours with a choice may be to count as aligned, px. */
const NEAR = 16;

function links(layered: Layered, x: Float64Array, shifts?: Shifts): Int32Array {
  const { size } = layered;
  const below = nearest(layered, layered.down, x, shifts?.down);
  const above = nearest(layered, layered.up, x, shifts?.up);
  for (let v = 0; v < size; v++) if (below[v] >= 0 && above[below[v]] !== v) below[v] = -1;
  return below;
}

/** The neighbour on one side that each node aligns with: its only one, or a near one; -1 on a tie. */
function nearest(
  { n, size }: Layered,
  { start, item }: Layered["up"],
  x: Float64Array,
  shift?: Float64Array,
): Int32Array {
  const result = new Int32Array(size).fill(-1);
  for (let v = 0; v < size; v++) {
    let least = start[v + 1] - start[v] === 1 ? Infinity : NEAR;
    for (let j = start[v]; j < start[v + 1]; j++) {
      const w = item[j];
      // A line between other points than the centres is not straight when the nodes are aligned.
      if (shift && Math.abs(shift[j]) > 0.5) continue;
      // A long edge continues, whatever branches off.
      const distance = v >= n && w >= n ? -1 : Math.abs(x[w] - x[v]);
      if (Math.abs(distance - least) < 0.5 && distance > 0) result[v] = -1;
      else if (distance < least) result[v] = w;
      least = Math.min(least, distance);
    }
  }
  return result;
}

/**
 * Weighted isotonic regression by pool-adjacent-violators: the nearest places to the wished ones (weighted least
 * squares) that keep the order and the gaps. `gap[i]` is the least distance from i to i + 1. Writes into `wish`.
 */
export function isotonic(
  count: number,
  wish: Float64Array,
  weight: Float64Array,
  gap: Float64Array,
  scratch: PoolScratch,
): void {
  const { mean, mass, last } = scratch;
  let pools = 0;
  let offset = 0;
  for (let i = 0; i < count; i++) {
    if (i > 0) offset += gap[i - 1];
    let m = wish[i] - offset;
    let w = weight[i];
    while (pools > 0 && mean[pools - 1] > m) {
      pools--;
      m = (mean[pools] * mass[pools] + m * w) / (mass[pools] + w);
      w += mass[pools];
    }
    mean[pools] = m;
    mass[pools] = w;
    last[pools++] = i;
  }
  offset = 0;
  for (let p = 0, i = 0; p < pools; p++) {
    for (; i <= last[p]; i++) {
      if (i > 0) offset += gap[i - 1];
      wish[i] = mean[p] + offset;
    }
  }
}

interface PoolScratch {
  mean: Float64Array;
  mass: Float64Array;
  last: Int32Array;
}

export function makePoolScratch(size: number): PoolScratch {
  return { mean: new Float64Array(size), mass: new Float64Array(size), last: new Int32Array(size) };
}
