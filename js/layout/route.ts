import { makePoolScratch, place } from "./isotonic";
import type { Hanging, Lines, Reach } from "./types";

/** The input of routing for one component; ids are drawn nodes, then dummies. */
export interface Placed {
  x: Float64Array;
  /** How far boxes and their docked parts reach to either side of x. */
  reach: Reach;
  /** Per node, the width of its border, px, and its docked parts. */
  width: Float64Array;
  hanging?: Hanging | undefined;
  /** The borders of boxes and of ranks, px. */
  boxTop: Float64Array;
  boxBottom: Float64Array;
  bandTop: Float64Array;
  bandBottom: Float64Array;
}

/** Distance between two lines that leave one border side by side, px. */
const PORT_GAP = 12;

/** How far ports may be from the middle of a border, px. */
export function roomOn(width: number): number {
  return Math.max(0, width / 2 - Math.min(8, width / 8));
}

/** The place of a single line on a border, at most `room` from the middle, given the distance to its other end. */
export function port(distance: number, room: number): number {
  if (Math.abs(distance) < Math.min(1, room)) return distance;
  return inside(Math.round(inside(distance / 4, -room, room) * 100) / 100, -room, room);
}

function inside(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}

/**
 * Where lines meet a border: offsets from its centre, in the order of the given distances to their other ends. A line
 * that can go straight does; others lean towards their ends and keep a port's gap while there is room.
 */
export function ports(distance: ArrayLike<number>, width: number): Float64Array {
  const k = distance.length;
  const room = roomOn(width);
  let straight = 0;
  while (straight < k && Math.abs(distance[straight]) >= Math.min(1, room)) straight++;
  const offset = new Float64Array(k);
  if (straight < k && (k === 1 || Math.abs(distance[straight + 1] ?? Infinity) >= 1)) {
    spread(0, straight, -room, -Math.min(PORT_GAP, room / Math.max(1, straight)));
    offset[straight] = distance[straight];
    spread(straight + 1, k, Math.min(PORT_GAP, room / Math.max(1, k - 1 - straight)), room);
  } else {
    spread(0, k, -room, room);
  }
  return offset;

  /** Place ports `from` up to `to` between two offsets, each near a quarter of its line's distance. */
  function spread(from: number, to: number, low: number, high: number): void {
    const count = to - from;
    if (count === 0) return;
    const gap = count > 1 ? Math.min(PORT_GAP, (high - low) / (count - 1)) : 0;
    const wish = Float64Array.from({ length: count }, (_, i) =>
      inside(distance[from + i] / 4, low, high),
    );
    place(count, wish, wish.slice().fill(1), wish.slice().fill(gap), makePoolScratch(count));
    for (let i = 0; i < count; i++) {
      // Pooled ports may reach past an end; the gaps are small enough to fit all.
      const least = low + i * gap;
      const most = high - (count - 1 - i) * gap;
      offset[from + i] = inside(Math.round(wish[i] * 100) / 100, least, most);
    }
  }
}

/** Append a point unless it repeats the last one; drop the last one if it is on the straight line. */
export function addPoint(points: number[], from: number, x: number, y: number): void {
  const k = points.length;
  if (k >= from + 2 && points[k - 2] === x && points[k - 1] === y) return;
  if (k >= from + 4) {
    const ax = points[k - 2] - points[k - 4];
    const ay = points[k - 1] - points[k - 3];
    const bx = x - points[k - 2];
    const by = y - points[k - 1];
    if (Math.abs(ax * by - ay * bx) < 1e-6) {
      points[k - 2] = x;
      points[k - 1] = y;
      return;
    }
  }
  points.push(x, y);
}

/** A self-loop's line: out of the right border and back in, `tall` lower. */
export function hook(x: number, y: number, bulge: number, tall: number): number[] {
  const [top, bottom] = [y - tall / 2, y + tall / 2];
  return [x, top, x + bulge, top, x + bulge, bottom, x, bottom];
}

/** Flatten separate lines. */
export function flatten(lines: readonly number[][]): Lines {
  const start = new Int32Array(lines.length + 1);
  for (let e = 0; e < lines.length; e++) start[e + 1] = start[e] + lines[e].length;
  const points = new Float64Array(start[lines.length]);
  for (let e = 0; e < lines.length; e++) points.set(lines[e], start[e]);
  return { start, points };
}

/** The points of an edge, from a layout's flat arrays (which can be transferred to a worker). */
export function routeOf(
  points: Float64Array,
  pointStart: Int32Array,
  edge: number,
): [number, number][] {
  const route: [number, number][] = [];
  for (let i = pointStart[edge]; i < pointStart[edge + 1]; i += 2) {
    route.push([points[i], points[i + 1]]);
  }
  return route;
}
