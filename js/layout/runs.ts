import type { Shifts } from "./border";
import type { Layered } from "./dummies";
import { group } from "./graph";

/** Paths to draw as vertical lines: each node and the next are each other's only or nearest neighbour. */
export interface Runs {
  /** The next node of the run, or -1. */
  next: Int32Array;
  /** First nodes of all runs, the longest run first. */
  heads: Int32Array;
}

export function findRuns(layered: Layered, x: Float64Array, shifts?: Shifts): Runs {
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

export interface Targets {
  x: Float64Array;
  /** Each node's weight: a long run has more. */
  weight: Float64Array;
}

/**
 * Per node, the x of its vertical run: the middle of its extent, so that one fixed node draws the others; or the
 * spine's x if the run touches it.
 */
export function runTargets({ next, heads }: Runs, x: Float64Array, spine: Uint8Array): Targets {
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
