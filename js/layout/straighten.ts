import type { Runs } from "./runs";
import type { Placing } from "./types";

/**
 * Make runs vertical, longest first: a run moves to its mean place if all of it has room, else in as few pieces as
 * possible.
 */
export function straighten(
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
