import type { Graph } from "./graph";
import type { Layered } from "./rank";
import type { Border, Reach } from "./types";

/** Lines whose ends differ by less are level, px. */
const LEVEL = 0.5;

/** Mark the spine: the nodes on every longest path, drawn on one vertical line. It pauses where the paths part. */
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

/**
 * The same without its ends beyond a box that no line passes straight, where those fit beside the box at their lines. A
 * node before a box of two rows is then level with the first one.
 */
export function withoutBentEnds(
  { out, target }: Graph,
  { ranks }: Layered,
  marked: Uint8Array,
  { left, right }: Reach,
  { leave, arrive }: Border,
): Uint8Array {
  const result = marked.slice();
  const chain = ranks.item.filter((v) => marked[v]);
  /** How far right of the upper node the lower one's lines are straight, one per line. */
  const offsets = (upper: number, lower: number) =>
    Array.from(out.item.subarray(out.start[upper], out.start[upper + 1]))
      .filter((e) => target[e] === lower)
      .map((e) => (leave[e] || 0) - (arrive[e] || 0));
  const free = (nodes: Int32Array, sign: 1 | -1) => {
    for (let i = nodes.length - 2; i >= 0; i--) {
      const [box, next] = [nodes[i], nodes[i + 1]];
      const by = sign > 0 ? offsets(box, next) : offsets(next, box);
      const level = by.filter((one) => Math.abs(one) <= LEVEL).length;
      if (level > 0 && level === by.length) continue;
      if (level > 0 || by.length === 0) return;
      const to = (sign * by.reduce((sum, one) => sum + one, 0)) / by.length;
      const end = nodes.subarray(i + 1);
      if (end.every((v) => left[v] - to <= left[box] && right[v] + to <= right[box]))
        for (const v of end) result[v] = 0;
      return;
    }
  };
  free(chain, 1);
  free(chain.slice().reverse(), -1);
  return result;
}
