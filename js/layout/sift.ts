import type { Layered } from "./dummies";
import { gainOn } from "./switch";

/**
 * Sifting: move each node to the place in its rank with the fewest crossings, past others that do not gain by
 * themselves, which switching cannot do. Rounds continue until none gains or `effort` (compared pairs of segments) is
 * spent; returns what was spent.
 */
export function sift(
  { ranks, up, down }: Layered,
  order: Int32Array,
  position: Int32Array,
  effort: number,
): number {
  let spent = 0;
  for (let gained = true; gained && spent < effort; ) {
    gained = false;
    for (let r = 0; r + 1 < ranks.start.length && spent < effort; r++) {
      const from = ranks.start[r];
      const row = order.subarray(from, ranks.start[r + 1]);
      for (const v of row.slice()) if (siftNode(row, v)) gained = true;
    }
  }
  return spent;

  function siftNode(row: Int32Array, v: number): boolean {
    const at = position[v];
    let to = at;
    let most = 0;
    for (const step of [1, -1]) {
      let gain = 0;
      for (let i = at + step; i >= 0 && i < row.length; i += step) {
        const here = gainOn(up, position, v, row[i]) + gainOn(down, position, v, row[i]);
        gain += step * here;
        spent += 4;
        if (gain > most) {
          most = gain;
          to = i;
        }
      }
    }
    const step = Math.sign(to - at);
    for (let i = at; i !== to; i += step) {
      row[i] = row[i + step];
      position[row[i]] = i;
    }
    row[to] = v;
    position[v] = to;
    return most > 0;
  }
}
