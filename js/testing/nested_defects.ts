import type { BoxInput, Layout, LayoutInput } from "../layout/types";
import { passes } from "./layout_defects";

interface Rect {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const NEAR = 1e-6;

export type NestedInput = LayoutInput & { boxes: BoxInput };

/** The defects of a nested layout, a line each. If it is wrapped, lines may run up between columns. */
export function defects(
  input: NestedInput,
  result: Layout,
  { header = 28, isWrapped = false } = {},
): string[] {
  const found: string[] = [];
  const n = result.x.length;
  const nodes = Array.from({ length: n }, (_, v): Rect => {
    const [w, h] = [input.width[result.owner[v]], input.height[result.owner[v]]];
    const [x, y] = [result.x[v], result.y[v]];
    return { left: x - w / 2, right: x + w / 2, top: y - h / 2, bottom: y + h / 2 };
  });
  const boxes = Array.from({ length: input.boxes.parent.length }, (_, b): Rect => {
    const { left, top, width, height } = result.boxes;
    return { left: left[b], right: left[b] + width[b], top: top[b], bottom: top[b] + height[b] };
  });
  const all = [...nodes, ...boxes];
  const name = (i: number) => (i < n ? `node ${i}` : `box ${i - n}`);
  const around = (i: number) => (i < n ? result.boxes.of[i] : input.boxes.parent[i - n]);
  const isAround = (box: number, i: number) => {
    let at = around(i);
    while (at >= 0 && at !== box) at = input.boxes.parent[at];
    return at === box;
  };

  all.forEach((a, i) => {
    const outer = around(i);
    const room =
      outer < 0 ? { left: 0, right: result.width, top: 0, bottom: result.height } : boxes[outer];
    const top = outer < 0 ? 0 : room.top + header;
    const fits = a.left >= room.left - NEAR && a.right <= room.right + NEAR;
    if (!(fits && a.top >= top - NEAR && a.bottom <= room.bottom + NEAR))
      found.push(`${name(i)} is not within its box`);
    for (let j = i + 1; j < all.length; j++) {
      if (around(j) !== outer) continue;
      const b = all[j];
      const apart = Math.max(
        a.left - b.right,
        b.left - a.right,
        a.top - b.bottom,
        b.top - a.bottom,
      );
      if (apart < 24 - NEAR) found.push(`${name(i)} and ${name(j)} are ${apart} apart`);
    }
  });
  for (let e = 0; e < result.edgeTarget.length; e++) {
    const back = result.backward[e] === 1;
    const [s, t] = [input.source[e], result.edgeTarget[e]];
    if (s === t) continue;
    const line = result.route(e);
    const [upper, lower] = back ? [t, s] : [s, t];
    if (back) line.reverse();
    const [[x0, y0], [x1, y1]] = [line[0], line[line.length - 1]];
    if (Math.abs(y0 - nodes[upper].bottom) > NEAR || !isOn(x0, nodes[upper]))
      found.push(`edge ${e} starts off its box`);
    if (Math.abs(y1 - nodes[lower].top) > NEAR || !isOn(x1, nodes[lower]))
      found.push(`edge ${e} ends off its box`);
    for (let i = 1; i < line.length; i++) {
      if (!isWrapped && line[i][1] < line[i - 1][1] - NEAR) found.push(`edge ${e} turns`);
      all.forEach((rect, j) => {
        const belongs =
          j === s || j === t || (j >= n && (isAround(j - n, s) || isAround(j - n, t)));
        if (!belongs && passes(line[i - 1], line[i], rect)) found.push(`edge ${e} cuts ${name(j)}`);
      });
    }
    // A line passes a border once, at its top or bottom: one that left through a side would return.
    boxes.forEach((rect, b) => {
      if (!isAround(b, s) && !isAround(b, t)) return;
      const [inS, inT] = [isAround(b, upper), isAround(b, lower)];
      for (const [x, y] of line) {
        const within = y > rect.top + NEAR && y < rect.bottom - NEAR;
        if (within && !isOn(x, rect)) {
          if (inS && inT) found.push(`edge ${e} leaves box ${b}`);
          else if (!isWrapped) found.push(`edge ${e} passes a side of box ${b}`);
        }
      }
    });
  }
  return found;
}

function isOn(x: number, rect: Rect): boolean {
  return x >= rect.left - NEAR && x <= rect.right + NEAR;
}
