type Point = [number, number];

/** The straight end of a bent line, to align its arrowhead. */
export const SHAFT = 8;

/**
 * A smooth line through a route's points, in the layout's coordinates (down): the start, then cubic segments of three
 * points, flat. Tangents are vertical at every point, so a piece stays between its segment's ends and never cuts into a
 * box beside it.
 */
export function smooth(route: readonly Point[]): number[] {
  const points = [...route];
  const [tipX, tipY] = points[points.length - 1];
  const beforeTip = points[points.length - 2];
  if (beforeTip[0] !== tipX && tipY - beforeTip[1] > 3 * SHAFT) {
    points.splice(points.length - 1, 0, [tipX, tipY - SHAFT]);
  }
  const flat = [...points[0]];
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1];
    const [x1, y1] = points[i];
    // The first piece leaves its box steeply, so that an argument there is on its own line.
    const leave = i === 1 ? 0.75 : 0.5;
    flat.push(x0, y0 + (y1 - y0) * leave, x1, (y0 + y1) / 2, x1, y1);
  }
  return flat;
}

/** A straight line between two points. */
export function straight([[x0, y0], [x1, y1]]: readonly Point[]): number[] {
  const at = (share: number) => [x0 + share * (x1 - x0), y0 + share * (y1 - y0)];
  return [...at(0), ...at(1 / 3), ...at(2 / 3), x1, y1];
}

/** The radius of rounded corners. */
const ROUND = 8;

/** A polyline with rounded corners. */
export function cornered(points: readonly Point[]): number[] {
  let curve: number[] = [];
  const reach = (to: Point) => {
    const from: Point = [curve[curve.length - 2], curve[curve.length - 1]];
    curve = [...curve, ...straight([from, to]).slice(2)];
  };
  points.forEach((point, i) => {
    if (i === 0) curve = [...point];
    else if (i === points.length - 1) reach(point);
    else {
      const away = (to: Point): Point => {
        const [dx, dy] = [to[0] - point[0], to[1] - point[1]];
        const share = Math.min(0.5, ROUND / (Math.hypot(dx, dy) || 1));
        return [point[0] + share * dx, point[1] + share * dy];
      };
      reach(away(points[i - 1]));
      curve.push(...point, ...point, ...away(points[i + 1]));
    }
  });
  return curve;
}

/** A piece of a line that is not drawn, between two numbered ends. */
export function jump([x, y]: Point): number[] {
  return [Number.NaN, Number.NaN, Number.NaN, Number.NaN, x, y];
}

/** Whether a piece of a flat curve is a jump. */
export function isJump(curve: ArrayLike<number>, piece: number): boolean {
  return Number.isNaN(curve[6 * piece + 2]);
}

/** The part of a line before it jumps. */
export function untilJump(curve: Float64Array): Float64Array {
  return curve.slice(0, curve.findIndex(Number.isNaN));
}

/** Where a line jumps from, and to. */
export function portalEnds(curve: ArrayLike<number>): Point[] {
  for (let i = 0; i + 7 < curve.length; i += 6)
    if (isJump(curve, i / 6))
      return [
        [curve[i], curve[i + 1]],
        [curve[i + 6], curve[i + 7]],
      ];
  return [];
}

/** How far below a moved port the line is back on its route; less than the least gap between ranks. */
const BACK = 22;

/** Moves both ends of a route along the borders of their boxes. */
export function moveEnds(route: readonly Point[], start: number, end: number): Point[] {
  const points = route.map(([x, y]): Point => [x, y]);
  moveStart(points, start, BACK);
  points.reverse();
  moveStart(points, end, -BACK);
  return points.reverse();
}

function moveStart(points: Point[], moved: number, back: number): void {
  const [x, y] = points[0];
  if (Math.abs(moved - x) < 0.01) return;
  points[0] = [moved, y];
  // A straight line would lean all the way to its far end, so bring it back at once.
  const [nextX, nextY] = points[1];
  if (Math.abs(nextX - x) < 0.01 && Math.abs(nextY - y) > Math.abs(back))
    points.splice(1, 0, [x, y + back]);
}

/** The point at `t` (0 to 1, by segments' height) of a flat curve. */
export function pointAt(curve: ArrayLike<number>, t: number): Point {
  const segments = (curve.length - 2) / 6;
  const at = Math.min(segments - 1, Math.floor(t * segments));
  const u = t * segments - at;
  const i = at * 6;
  const v = 1 - u;
  if (isJump(curve, at)) return [curve[i + (u < 0.5 ? 0 : 6)], curve[i + (u < 0.5 ? 1 : 7)]];
  const mix = (k: number) =>
    v * v * v * curve[i + k] +
    3 * v * v * u * curve[i + 2 + k] +
    3 * v * u * u * curve[i + 4 + k] +
    u * u * u * curve[i + 6 + k];
  return [mix(0), mix(1)];
}

/** SVG path data of a flat curve. */
export function pathData(curve: ArrayLike<number>): string {
  const r = (i: number) => Math.round(curve[i] * 10) / 10;
  let data = `M${r(0)},${r(1)}`;
  for (let i = 2; i < curve.length; i += 6) {
    if (Number.isNaN(curve[i])) data += `M${r(i + 4)},${r(i + 5)}`;
    else data += `C${r(i)},${r(i + 1)} ${r(i + 2)},${r(i + 3)} ${r(i + 4)},${r(i + 5)}`;
  }
  return data;
}

/** SVG path data of the arrowhead at the end of a curve, pointing along the flow. */
export function arrowData(x: number, y: number, [fx, fy]: readonly [number, number]): string {
  const long = 7;
  const wide = 3.5;
  const bx = x - fx * long;
  const by = y - fy * long;
  return `M${x},${y}L${bx - fy * wide},${by + fx * wide}L${bx + fy * wide},${by - fx * wide}Z`;
}

/** The same for an upward route. */
export function smoothUp(route: readonly Point[]): number[] {
  const upsideDown = (flat: number[]) => flat.map((value, i) => (i % 2 ? -value : value));
  return upsideDown(smooth(route.map(([x, y]): Point => [x, -y])));
}

/** The point half-way along a curve, by length. */
export function halfway(curve: ArrayLike<number>): Point {
  const steps = 8 * Math.max(1, (curve.length - 2) / 6);
  const points = Array.from({ length: steps + 1 }, (_, i) => pointAt(curve, i / steps));
  const lengths = points
    .slice(1)
    .map(([x, y], i) => Math.hypot(x - points[i][0], y - points[i][1]));
  let left = lengths.reduce((sum, length) => sum + length, 0) / 2;
  for (let i = 0; i < lengths.length; i++) {
    if (left <= lengths[i] && lengths[i] > 0) {
      const [[ax, ay], [bx, by]] = [points[i], points[i + 1]];
      const share = left / lengths[i];
      return [ax + share * (bx - ax), ay + share * (by - ay)];
    }
    left -= lengths[i];
  }
  return points[points.length - 1];
}

/** A curve's bounds: left, top, right, bottom. */
export function boundsOf(curve: Float64Array): [number, number, number, number] {
  let [left, top] = curve;
  let [right, bottom] = curve;
  for (let i = 2; i < curve.length; i += 2) {
    if (Number.isNaN(curve[i])) continue;
    left = Math.min(left, curve[i]);
    right = Math.max(right, curve[i]);
    top = Math.min(top, curve[i + 1]);
    bottom = Math.max(bottom, curve[i + 1]);
  }
  return [left, top, right, bottom];
}
