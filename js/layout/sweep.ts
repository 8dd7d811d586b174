import type { Layered } from "./dummies";

/** The places of all nodes in their ranks. */
export function positions({ ranks, size }: Layered, order: Int32Array): Int32Array {
  const position = new Int32Array(size);
  for (let r = 0; r + 1 < ranks.start.length; r++) {
    for (let i = ranks.start[r]; i < ranks.start[r + 1]; i++)
      position[order[i]] = i - ranks.start[r];
  }
  return position;
}

/**
 * One barycentre sweep: sort each rank by the mean place of its neighbours in the previous rank. Nodes without such
 * neighbours stay. Ties keep their order, or reverse it.
 */
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
export function sortByKey(
  items: Int32Array,
  count: number,
  key: Float64Array,
  turnTies: boolean,
): void {
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
