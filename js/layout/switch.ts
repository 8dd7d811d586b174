import type { Layered } from "./dummies";

/**
 * Greedy switching: swap neighbours in a rank while that removes crossings, for some rounds. Pairs without gain stay,
 * so the input's order survives where possible.
 */
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
export function gainOn(
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
