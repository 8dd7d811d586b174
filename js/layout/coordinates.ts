import type { Shifts } from "./border";
import type { Layered } from "./dummies";
import { makePoolScratch, place } from "./isotonic";
import { pushOut } from "./push";
import { findRuns, runTargets, type Targets } from "./runs";
import { straighten } from "./straighten";

/** Least distances, px: between two boxes, and between a line and whatever is beside it. */
export interface Gaps {
  nodeGap: number;
  edgeGap: number;
}

const SPINE_WEIGHT = 1e6;

/** How far nodes and dummies reach to either side of their x, px. */
export interface Reach {
  left: Float64Array;
  right: Float64Array;
}

/**
 * The least distance between the places of neighbours, a left of b, in half pixels so that rounding to those keeps it.
 * Two boxes with a line between them are still `nodeGap` apart.
 */
export function separation(
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
 * The x of every node and dummy, px. The spine starts on one vertical line; sweeps down and up then pull each node to
 * its neighbours, each rank solved exactly by isotonic regression; at last, runs that can be straight become so.
 * `reach` has an entry per node and dummy; `shifts` say where neighbours would rather not be in line.
 */
export function coordinates(
  layered: Layered,
  order: Int32Array,
  reach: Reach,
  spine: Uint8Array,
  gaps: Gaps,
  shifts?: Shifts,
): Float64Array {
  const { n, size, ranks } = layered;
  const depth = ranks.start.length - 1;
  const x = new Float64Array(size);
  let widest = 0;
  for (let r = 0; r < depth; r++) {
    widest = Math.max(widest, ranks.start[r + 1] - ranks.start[r]);
    pushFromSpine(r);
  }
  const wish = new Float64Array(widest);
  const weight = new Float64Array(widest);
  const gap = new Float64Array(widest);
  const scratch = makePoolScratch(widest);
  // Where each node's run would have it, once there are runs.
  let runs: Targets | undefined;

  const rounds = size > 100_000 ? 3 : size > 8_000 ? 5 : 10;
  for (let k = 0; k < rounds; k++) {
    for (let r = 1; r < depth; r++) settle(r, true, false);
    for (let r = depth - 2; r >= 0; r--) settle(r, false, true);
  }
  const apart = (a: number, b: number) => separation(n, reach, gaps, a, b);
  for (let k = 0; k < 2; k++) {
    for (let r = 0; r < depth; r++) settle(r, true, true);
    for (let r = depth - 1; r >= 0; r--) settle(r, true, true);
    straighten(layered, order, x, findRuns(layered, x, shifts), apart, spine);
  }
  for (let k = 0; k < (size > 8_000 ? 1 : 3); k++) {
    const found = findRuns(layered, x, shifts);
    runs = runTargets(found, x, spine);
    for (let r = 0; r < depth; r++) settle(r, true, true);
    straighten(layered, order, x, found, apart, spine);
  }
  pushOut(layered, order, x, findRuns(layered, x, shifts), apart, spine);
  return x;

  /** A first place: everything packed on the side of the spine that it is ordered on. */
  function pushFromSpine(r: number): void {
    const from = ranks.start[r];
    const to = ranks.start[r + 1];
    let middle = from;
    for (let i = from; i < to; i++) if (spine[order[i]]) middle = i;
    x[order[middle]] = 0;
    for (let i = middle + 1; i < to; i++) {
      x[order[i]] = x[order[i - 1]] + separation(n, reach, gaps, order[i - 1], order[i]);
    }
    for (let i = middle - 1; i >= from; i--) {
      x[order[i]] = x[order[i + 1]] - separation(n, reach, gaps, order[i], order[i + 1]);
    }
  }

  /** Moves rank r as close to its neighbours above and/or below as order and gaps allow. */
  function settle(r: number, useUp: boolean, useDown: boolean): void {
    const from = ranks.start[r];
    const count = ranks.start[r + 1] - from;
    for (let i = 0; i < count; i++) {
      const v = order[from + i];
      let sum = 0;
      let total = 0;
      if (spine[v]) {
        total = SPINE_WEIGHT;
      } else {
        for (let side = 0; side < 2; side++) {
          if (!(side === 0 ? useUp : useDown)) continue;
          const { start, item } = side === 0 ? layered.up : layered.down;
          const shift = side === 0 ? shifts?.up : shifts?.down;
          for (let j = start[v]; j < start[v + 1]; j++) {
            const w = item[j];
            const pull = v < n ? (w < n ? 1 : 2) : w < n ? 2 : 8;
            sum += pull * (shift ? x[w] + shift[j] : x[w]);
            total += pull;
          }
        }
      }
      if (runs) {
        sum += runs.weight[v] * runs.x[v];
        total += runs.weight[v];
      }
      // A node without neighbours on this side stays, but gives way to any that has.
      wish[i] = spine[v] ? 0 : total > 0 ? sum / total : x[v];
      weight[i] = total > 0 ? total : 0.01;
      if (i > 0) gap[i - 1] = separation(n, reach, gaps, order[from + i - 1], v);
    }
    place(count, wish, weight, gap, scratch);
    for (let i = 0; i < count; i++) x[order[from + i]] = wish[i];
  }
}
