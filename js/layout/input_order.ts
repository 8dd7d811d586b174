import type { Layered } from "./dummies";

/**
 * Move an order closer to the input's at no cost in crossings: mirror the picture if more siblings then read from left
 * to right, and sort leaves of one parent.
 */
export function followInput(layered: Layered, order: Int32Array): Int32Array {
  const { size, ranks, down } = layered;
  const position = new Int32Array(size);
  for (let i = 0; i < size; i++) position[order[i]] = i;
  let kept = 0;
  for (let v = 0; v < size; v++) {
    for (let j = down.start[v] + 1; j < down.start[v + 1]; j++) {
      const [a, b] = [down.item[j - 1], down.item[j]];
      if (!(isLeaf(layered, a) && isLeaf(layered, b))) kept += Math.sign(position[b] - position[a]);
    }
  }
  const result = order.slice();
  if (kept < 0) {
    for (let r = 0; r + 1 < ranks.start.length; r++) {
      result.subarray(ranks.start[r], ranks.start[r + 1]).reverse();
    }
  }
  sortLeaves(layered, result);
  return result;
}

/** Swapping leaves of one parent keeps the number of crossings. */
function sortLeaves(layered: Layered, order: Int32Array): void {
  const { size, down } = layered;
  const place = new Int32Array(size);
  for (let i = 0; i < size; i++) place[order[i]] = i;
  for (let v = 0; v < size; v++) {
    if (down.start[v + 1] - down.start[v] < 2) continue;
    const leaves = Array.from(down.item.subarray(down.start[v], down.start[v + 1])).filter((w) =>
      isLeaf(layered, w),
    );
    const places = leaves.map((w) => place[w]).sort((a, b) => a - b);
    leaves.forEach((w, i) => {
      order[places[i]] = w;
    });
  }
}

function isLeaf({ up, down }: Layered, v: number): boolean {
  return down.start[v + 1] === down.start[v] && up.start[v + 1] - up.start[v] === 1;
}
