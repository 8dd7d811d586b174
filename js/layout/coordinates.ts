import type { Shifts } from "./border";
import type { Layered } from "./dummies";
import { makePoolScratch, place as pool } from "./isotonic";
import { pushOut } from "./push";
import { findRuns, runTargets, type Targets } from "./runs";
import { straighten } from "./straighten";
import type { Reach } from "./types";

/** The least distances, px: between two boxes, and between a line and its neighbour. */
export interface Gaps {
  nodeGap: number;
  edgeGap: number;
}

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
  { nodeGap, edgeGap }: Gaps,
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
  gaps: Gaps,
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
    gaps: Gaps,
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

  /**
   * Sweep down and up; each rank follows the one before it. Skip a rank if neither its places nor its guide's changed
   * since the last such sweep: the result would be the same.
   */
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
    if (count > 1) pool(count, wish, weight, apart.subarray(start + 1, start + count), scratch);
    let moved = false;
    for (let i = 0; i < count; i++) {
      const v = order[start + i];
      if (Math.abs(to[v] - wish[i]) > STILL) moved = true;
      to[v] = wish[i];
    }
    return moved;
  }
}
