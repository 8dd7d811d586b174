import { group } from "../layout/graph";

/**
 * A picture by any tool: boxes by their centres, and a polyline per edge. Px, y downwards. This file judges only
 * visible properties, and knows nothing of ranks, to treat all tools alike.
 */
export interface Drawn {
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  width: ArrayLike<number>;
  height: ArrayLike<number>;
  /** Per edge, its ends. */
  source: ArrayLike<number>;
  target: ArrayLike<number>;
  /** Edge e has the x, y pairs in `points` from `start[e]` to `start[e + 1]`. */
  points: ArrayLike<number>;
  start: ArrayLike<number>;
}

/** The measures of a picture. Lengths in px. */
export interface Judged {
  /** Points where lines cross. Lines that coincide (of edges with a common start) cross another once. */
  crossings: number;
  /** Extent of all boxes and lines. */
  width: number;
  height: number;
  length: number;
  /** Pairs of a line and a box that it crosses, except its ends. */
  through: number;
}

/** Rounding in a tool's numbers does not count as a defect, px. */
const TOLERANCE = 1;

export function judge(drawn: Drawn): Judged {
  const { x, y, width, height, points, start } = drawn;
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  const widen = (x0: number, x1: number, y0: number, y1: number) => {
    left = Math.min(left, x0);
    right = Math.max(right, x1);
    top = Math.min(top, y0);
    bottom = Math.max(bottom, y1);
  };
  for (let v = 0; v < x.length; v++) {
    const [w, h] = [width[v] / 2, height[v] / 2];
    widen(x[v] - w, x[v] + w, y[v] - h, y[v] + h);
  }
  let length = 0;
  for (let e = 0; e + 1 < start.length; e++) {
    for (let i = start[e]; i < start[e + 1]; i += 2) {
      widen(points[i], points[i], points[i + 1], points[i + 1]);
      if (i > start[e])
        length += Math.hypot(points[i] - points[i - 2], points[i + 1] - points[i - 1]);
    }
  }
  const segments = segmentsOf(drawn);
  return {
    crossings: countCrossings(segments),
    width: right - left,
    height: bottom - top,
    length,
    through: countThrough(drawn, segments),
  };
}

/** The straight pieces of all lines; four numbers each, the upper end first. Sorted by the upper ends. */
interface Segments {
  ends: Float64Array;
  edge: Int32Array;
}

function segmentsOf({ points, start }: Drawn): Segments {
  const found: { ends: [number, number, number, number]; edge: number }[] = [];
  for (let e = 0; e + 1 < start.length; e++) {
    for (let i = start[e] + 2; i < start[e + 1]; i += 2) {
      const [x0, y0, x1, y1] = [points[i - 2], points[i - 1], points[i], points[i + 1]];
      if (x0 === x1 && y0 === y1) continue;
      found.push({ ends: y0 <= y1 ? [x0, y0, x1, y1] : [x1, y1, x0, y0], edge: e });
    }
  }
  found.sort((a, b) => a.ends[1] - b.ends[1]);
  const ends = new Float64Array(4 * found.length);
  found.forEach((segment, i) => {
    ends.set(segment.ends, 4 * i);
  });
  return { ends, edge: Int32Array.from(found, (segment) => segment.edge) };
}

/** A line sweep: each segment is compared with those that begin above its lower end and end below its upper end. */
function countCrossings({ ends }: Segments): number {
  const count = ends.length / 4;
  const active = new Int32Array(count);
  let size = 0;
  let sum = 0;
  // Coinciding lines cross another at one point, which counts once; by tenths of a pixel.
  const seen = new Set<number>();
  for (let s = 0; s < count; s++) {
    const [x0, y0, x1, y1] = [ends[4 * s], ends[4 * s + 1], ends[4 * s + 2], ends[4 * s + 3]];
    const [low, high] = x0 < x1 ? [x0, x1] : [x1, x0];
    let kept = 0;
    for (let k = 0; k < size; k++) {
      const t = active[k];
      const i = 4 * t;
      if (ends[i + 3] <= y0) continue;
      active[kept++] = t;
      if (ends[i] < low && ends[i + 2] < low) continue;
      if (ends[i] > high && ends[i + 2] > high) continue;
      const at = crossing(x0, y0, x1, y1, ends[i], ends[i + 1], ends[i + 2], ends[i + 3]);
      if (at === null) continue;
      const key = Math.round(at[0] * 10) * 2 ** 27 + Math.round(at[1] * 10);
      if (!seen.has(key)) sum++;
      seen.add(key);
    }
    size = kept;
    active[size++] = s;
  }
  return sum;
}

/** The point where two segments cross properly: not at a contact or a common end. */
function crossing(
  ax: number,
  ay: number,
  bx: number,
  by: number,
  cx: number,
  cy: number,
  dx: number,
  dy: number,
): [number, number] | null {
  const side = (px: number, py: number, qx: number, qy: number, rx: number, ry: number) =>
    (qx - px) * (ry - py) - (qy - py) * (rx - px);
  const c = side(ax, ay, bx, by, cx, cy);
  const d = side(ax, ay, bx, by, dx, dy);
  if (!(c * d < 0)) return null;
  const a = side(cx, cy, dx, dy, ax, ay);
  const b = side(cx, cy, dx, dy, bx, by);
  if (!(a * b < 0)) return null;
  const share = c / (c - d);
  return [cx + share * (dx - cx), cy + share * (dy - cy)];
}

function countThrough(drawn: Drawn, { ends, edge }: Segments): number {
  const { x, y, width, height, source, target } = drawn;
  const n = x.length;
  // Boxes by horizontal bands, so that a segment meets few.
  let band = 1;
  for (let v = 0; v < n; v++) band = Math.max(band, height[v]);
  let top = Infinity;
  let bottom = -Infinity;
  for (let v = 0; v < n; v++) {
    top = Math.min(top, y[v]);
    bottom = Math.max(bottom, y[v]);
  }
  const bandOf = (at: number) => Math.floor((at - top) / band);
  const bands = n ? bandOf(bottom) + 1 : 0;
  const { start, item } = group(
    bands,
    Int32Array.from({ length: n }, (_, v) => bandOf(y[v])),
  );
  const found = new Set<number>();
  for (let s = 0; s < edge.length; s++) {
    const [x0, y0, x1, y1] = [ends[4 * s], ends[4 * s + 1], ends[4 * s + 2], ends[4 * s + 3]];
    const first = Math.max(0, bandOf(y0) - 1);
    const last = Math.min(bands - 1, bandOf(y1) + 1);
    if (first > last) continue;
    for (let i = start[first]; i < start[last + 1]; i++) {
      const v = item[i];
      if (v === source[edge[s]] || v === target[edge[s]]) continue;
      const [w, h] = [width[v] / 2 - TOLERANCE, height[v] / 2 - TOLERANCE];
      if (w <= 0 || h <= 0) continue;
      if (meets(x0 - x[v], y0 - y[v], x1 - x[v], y1 - y[v], w, h)) found.add(edge[s] * n + v);
    }
  }
  return found.size;
}

/** Whether a segment crosses the inside of a rectangle around 0, 0 with half sizes w and h. */
function meets(x0: number, y0: number, x1: number, y1: number, w: number, h: number): boolean {
  if (Math.min(x0, x1) >= w || Math.max(x0, x1) <= -w) return false;
  if (Math.min(y0, y1) >= h || Math.max(y0, y1) <= -h) return false;
  // The four corners must not all lie on one side of the segment's line.
  const [dx, dy] = [x1 - x0, y1 - y0];
  const away = Math.abs(dx * y0 - dy * x0);
  return away < Math.abs(dx) * h + Math.abs(dy) * w;
}
