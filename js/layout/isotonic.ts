/**
 * Weighted isotonic regression by pool-adjacent-violators: the nearest places to the wished ones (weighted least
 * squares) that keep the order and the gaps. `gap[i]` is the least distance from i to i + 1. Writes into `wish`.
 */
export function place(
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
