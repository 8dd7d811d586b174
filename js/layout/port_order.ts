import type { Layered } from "./rank";
import type { Shifts } from "./types";

/** A border of a box: its ports, and each port's line around the box, from the border on. */
export interface BorderLines {
  ports: number[];
  lines: (readonly number[])[];
}

/** A border with more ports is not compared. */
const MOST_PORTS = 40;

/**
 * Where the content of boxes should have its ports, so that the lines around a box do not cross: per port, the share of
 * the border's other ports that belong on its left. NaN on borders without crossings, unless `before` has a wish there.
 */
export function portWishes(borders: Iterable<BorderLines>, before: Float64Array) {
  const wish = before.slice();
  let crossings = 0;
  for (const { ports, lines } of borders) {
    if (ports.length < 2 || ports.length > MOST_PORTS) continue;
    const left = new Int32Array(ports.length);
    let found = 0;
    for (let i = 0; i < ports.length; i++) {
      for (let j = 0; j < i; j++) {
        const cross = doCross(lines[i], lines[j]);
        if (cross) found++;
        left[lines[j][0] < lines[i][0] !== cross ? i : j]++;
      }
    }
    crossings += found;
    if (found === 0) continue;
    ports.forEach((port, i) => {
      wish[port] = left[i] / (ports.length - 1);
    });
  }
  return { wish, crossings };
}

/** Whether two lines cross an odd number of times. */
function doCross(a: readonly number[], b: readonly number[]): boolean {
  let odd = false;
  for (let i = 2; i < a.length; i += 2)
    for (let j = 2; j < b.length; j += 2) if (segmentsCross(a, i, b, j)) odd = !odd;
  return odd;
}

function segmentsCross(a: readonly number[], i: number, b: readonly number[], j: number): boolean {
  const side = (line: readonly number[], k: number, x: number, y: number) =>
    Math.sign(
      (line[k] - line[k - 2]) * (y - line[k - 1]) - (line[k + 1] - line[k - 1]) * (x - line[k - 2]),
    );
  return (
    side(a, i, b[j - 2], b[j - 1]) * side(a, i, b[j], b[j + 1]) < 0 &&
    side(b, j, a[i - 2], a[i - 1]) * side(b, j, a[i], a[i + 1]) < 0
  );
}

/** Mirror the ranks between two ranks of one node each where lines then meet fewer others at those nodes. */
export function untwisted(layered: Layered, order: Int32Array, shifts: Shifts): Int32Array {
  const { rank, up, down, size } = layered;
  const { start } = layered.ranks;
  const position = new Int32Array(size);
  for (let i = 0; i < size; i++) position[order[i]] = i;
  /** The pairs of lines on one side of a node that do not cross, minus those that do. */
  const agreement = (v: number | undefined, side: Layered["up"], shift: Float64Array) => {
    if (v === undefined) return 0;
    let sum = 0;
    for (let i = side.start[v]; i < side.start[v + 1]; i++) {
      for (let j = side.start[v]; j < i; j++) {
        const turn = position[side.item[i]] - position[side.item[j]];
        sum += Math.sign(turn * (shift[j] - shift[i]));
      }
    }
    return sum;
  };
  const result = order.slice();
  for (let from = 0, i = 0; i <= size; i++) {
    const isAlone = i === size || start[rank[order[i]] + 1] - start[rank[order[i]]] === 1;
    if (!isAlone) continue;
    const agreed =
      agreement(order[from - 1], down, shifts.down) + agreement(order[i], up, shifts.up);
    if (agreed < 0)
      for (let r = rank[order[from]]; start[r] < i; r++)
        result.subarray(start[r], start[r + 1]).reverse();
    from = i + 1;
  }
  return result;
}
