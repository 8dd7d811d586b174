import type { Reach } from "./coordinates";
import { makePoolScratch, place } from "./isotonic";

/** What routing needs to know of one laid-out component; ids are drawn nodes, then dummies. */
export interface Placed {
  x: Float64Array;
  /** How far boxes reach to either side of x. */
  reach: Reach;
  /** Borders of the boxes and of the bands that the ranks fill (by rank), px. */
  boxTop: Float64Array;
  boxBottom: Float64Array;
  bandTop: Float64Array;
  bandBottom: Float64Array;
}

/** Distance between two lines that leave one border side by side, px. */
const PORT_GAP = 12;

/**
 * Where lines meet a border: offsets from its centre, in the order of the given distances to their other ends. A line
 * that can go straight does; the others lean towards where they go and keep a port's gap while the border has room.
 */
export function ports(distance: Float64Array, width: number): Float64Array {
  const k = distance.length;
  const room = Math.max(0, width / 2 - Math.min(8, width / 8));
  const straight = distance.findIndex((d) => Math.abs(d) < Math.min(1, room));
  const offset = new Float64Array(k);
  if (straight >= 0 && (k === 1 || Math.abs(distance[straight + 1] ?? Infinity) >= 1)) {
    spread(0, straight, -room, -Math.min(PORT_GAP, room / Math.max(1, straight)));
    offset[straight] = distance[straight];
    spread(straight + 1, k, Math.min(PORT_GAP, room / Math.max(1, k - 1 - straight)), room);
  } else {
    spread(0, k, -room, room);
  }
  return offset;

  /** Ports `from` up to `to` between two offsets, each near a quarter of its line's distance. */
  function spread(from: number, to: number, low: number, high: number): void {
    const count = to - from;
    if (count === 0) return;
    const gap = count > 1 ? Math.min(PORT_GAP, (high - low) / (count - 1)) : 0;
    const wish = distance.slice(from, to).map((d) => Math.max(low, Math.min(high, d / 4)));
    place(count, wish, wish.slice().fill(1), wish.slice().fill(gap), makePoolScratch(count));
    for (let i = 0; i < count; i++) {
      // Pooled ports may reach past an end; the gaps were chosen so that all fit.
      const least = low + i * gap;
      const most = high - (count - 1 - i) * gap;
      offset[from + i] = Math.max(least, Math.min(most, Math.round(wish[i] * 100) / 100));
    }
  }
}

/** Appends a point unless it repeats the last one or the last lies on the straight line to it. */
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
