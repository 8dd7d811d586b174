import type { Layered } from "./dummies";
import { sortByKey } from "./sweep";

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
