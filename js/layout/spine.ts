import type { Layered } from "./dummies";

/**
 * Mark the spine: the nodes on every longest path, which are drawn on one vertical line. Where the longest paths part,
 * as in a diamond, the spine pauses.
 */
export function spine({ size, ranks, up, down, n }: Layered): Uint8Array {
  // Count real nodes only, so that a skip is not taken for the main path.
  const above = new Int32Array(size);
  const below = new Int32Array(size);
  for (let i = 0; i < size; i++) {
    const v = ranks.item[i];
    for (let j = up.start[v]; j < up.start[v + 1]; j++)
      above[v] = Math.max(above[v], above[up.item[j]]);
    if (v < n) above[v]++;
  }
  let longest = 0;
  for (let i = size - 1; i >= 0; i--) {
    const v = ranks.item[i];
    for (let j = down.start[v]; j < down.start[v + 1]; j++) {
      below[v] = Math.max(below[v], below[down.item[j]]);
    }
    if (v < n) below[v]++;
    longest = Math.max(longest, above[v] + below[v] - 1);
  }
  const alone = new Int32Array(longest + 1);
  const isLongest = (v: number) => above[v] + below[v] - 1 === longest;
  for (let v = 0; v < n; v++) if (isLongest(v)) alone[above[v]]++;
  const marked = new Uint8Array(size);
  for (let v = 0; v < n; v++) if (isLongest(v) && alone[above[v]] === 1) marked[v] = 1;
  return marked;
}
