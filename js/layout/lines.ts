import { isotonic, makePoolScratch } from "./coordinates";
import type { Graph, Grouped } from "./graph";
import { DETOUR, type Layered } from "./rank";
import type { Border, Hanging, Lines, Reach } from "./types";

/** The distance of a slanting line from a neighbour, px: ports may still move. */
const CLEAR = 24;

/**
 * Draw every edge as a polyline, vertical within a rank and slanted only in the gaps between ranks. Edges without
 * dummies run around, on the lane. Fixed ends stay.
 */
export function drawLines(
  graph: Graph,
  layered: Layered,
  order: Int32Array,
  placed: Placed,
  fixed?: Border,
): Lines {
  const { source, target } = graph;
  const m = source.length;
  const { x, lane, boxTop, boxBottom, bandTop, bandBottom } = placed;
  const { rank, first } = layered;

  const next = new Int32Array(m);
  const previous = new Int32Array(m);
  for (let e = 0; e < m; e++) {
    const span = rank[target[e]] - rank[source[e]] - 1;
    next[e] = first[e] === DETOUR ? DETOUR : first[e] >= 0 ? first[e] : target[e];
    previous[e] = first[e] === DETOUR ? DETOUR : first[e] >= 0 ? first[e] + span - 1 : source[e];
  }
  const at = (v: number) => (v === DETOUR ? lane : x[v]);
  const startX = ends(source, fixed?.leave);
  const endX = ends(target, fixed?.arrive);
  const leave = portsOn(graph.n, graph.out, next, beside(next, target, endX), endX, placed);
  const nearStart = beside(previous, source, startX);
  const arrive = portsOn(graph.n, graph.in, previous, nearStart, startX, placed);
  fix(leave, fixed?.leave);
  fix(arrive, fixed?.arrive);
  const isFree = freeSlants(layered, order, placed);
  const start = new Int32Array(m + 1);
  const points: number[] = [];
  for (let e = 0; e < m; e++) {
    const s = source[e];
    const t = target[e];
    const from = points.length;
    const x0 = x[s] + leave[e];
    const x1 = x[t] + arrive[e];
    const direct = first[e] === -1;
    const nextX = direct ? x1 : at(next[e]);
    const previousX = direct ? x0 : at(previous[e]);
    addPoint(points, from, x0, boxBottom[s]);
    if (!isFree(s, x0, nextX, boxBottom[s], bandBottom[rank[s]], bandTop[rank[s] + 1]))
      addPoint(points, from, x0, bandBottom[rank[s]]);
    if (first[e] === DETOUR) {
      addPoint(points, from, lane, (bandBottom[rank[s]] + bandTop[rank[s] + 1]) / 2);
      addPoint(points, from, lane, (bandBottom[rank[t] - 1] + bandTop[rank[t]]) / 2);
    } else if (!direct) {
      for (let d = next[e]; d <= previous[e]; d++) {
        addPoint(points, from, x[d], bandTop[rank[d]]);
        addPoint(points, from, x[d], bandBottom[rank[d]]);
      }
    }
    if (!isFree(t, x1, previousX, boxTop[t], bandTop[rank[t]], bandBottom[rank[t] - 1]))
      addPoint(points, from, x1, bandTop[rank[t]]);
    addPoint(points, from, x1, boxTop[t]);
    start[e + 1] = points.length;
  }
  return { start, points };

  /** Per edge, roughly where it meets the node at one end. */
  function ends(node: Int32Array, offset?: Float64Array): Float64Array {
    const result = new Float64Array(m);
    for (let e = 0; e < m; e++) result[e] = x[node[e]] + (offset?.[e] || 0);
    return result;
  }

  /** Per edge, its place in the rank beside its end: a dummy, or its other end. */
  function beside(near: Int32Array, far: Int32Array, farX: Float64Array): Float64Array {
    const result = new Float64Array(m);
    for (let e = 0; e < m; e++) result[e] = near[e] === far[e] ? farX[e] : at(near[e]);
    return result;
  }
}

/** Move fixed ports to their places. */
function fix(ports: Float64Array, fixed?: Float64Array): void {
  fixed?.forEach((place, e) => {
    if (!Number.isNaN(place)) ports[e] = place;
  });
}

/** Return whether a line may slant right at a short box' border without crossing a neighbour's margin. */
function freeSlants(layered: Layered, order: Int32Array, placed: Placed) {
  const { x } = placed;
  const { rank } = layered;
  const place = new Int32Array(layered.size);
  for (let i = 0; i < layered.size; i++) place[order[i]] = i;
  return (v: number, from: number, to: number, border: number, band: number, end: number) => {
    if (border === band || from === to) return true;
    // A docked node taller than its box blocks a slant.
    if ((placed.hanging?.height[v] ?? 0) > placed.boxBottom[v] - placed.boxTop[v]) return false;
    const share = (band - border) / (end - border);
    const reach = from + (to - from) * Math.max(share, bentShare(share));
    const { start: ranks } = layered.ranks;
    const i = place[v];
    if (to > from) {
      if (i + 1 >= ranks[rank[v] + 1]) return true;
      const w = order[i + 1];
      return reach < x[w] - placed.reach.left[w] - CLEAR;
    }
    if (i === ranks[rank[v]]) return true;
    const w = order[i - 1];
    return reach > x[w] + placed.reach.right[w] + CLEAR;
  };
}

/** The share of a curve's sideways way that is left at a share of its height before its end. */
function bentShare(left: number): number {
  let [low, high] = [0, 1];
  for (let i = 0; i < 12; i++) {
    const u = (low + high) / 2;
    const v = 1 - u;
    if (2.25 * v * v * u + 1.5 * v * u * u + u * u * u < 1 - left) low = u;
    else high = u;
  }
  return 1 - low * low * (3 - 2 * low);
}

/** Each edge's port as an offset from its node's centre; ports are in the order of `near`, then `far`. */
function portsOn(
  n: number,
  { start, item }: Grouped,
  near: Int32Array,
  nearX: Float64Array,
  farX: Float64Array,
  { x, width: widths }: Placed,
): Float64Array {
  const result = new Float64Array(item.length);
  const compare = (a: number, b: number) =>
    nearX[a] - nearX[b] || near[a] - near[b] || farX[a] - farX[b] || a - b;
  for (let v = 0; v < n; v++) {
    const width = widths[v];
    const first = start[v];
    const degree = start[v + 1] - first;
    if (degree === 1) result[item[first]] = port(nearX[item[first]] - x[v], roomOn(width));
    if (degree < 2) continue;
    const edges = item.subarray(first, first + degree);
    if (degree > 2) edges.set(Array.from(edges).sort(compare));
    else if (compare(edges[0], edges[1]) > 0) edges.reverse();
    const distance: number[] = [];
    for (let i = 0; i < degree; i++) {
      if (!sharesPort(edges, i)) distance.push(nearX[edges[i]] - x[v]);
    }
    const offsets = ports(distance, width);
    for (let i = 0, at = -1; i < degree; i++) {
      if (!sharesPort(edges, i)) at++;
      result[edges[i]] = offsets[at];
    }
  }
  return result;

  /** Edges that share a chain of dummies share their port. */
  function sharesPort(edges: Int32Array, i: number): boolean {
    return i > 0 && near[edges[i]] === near[edges[i - 1]] && near[edges[i]] >= n;
  }
}

/** The input of routing for one component; ids are drawn nodes, then dummies. */
interface Placed {
  x: Float64Array;
  /** How far boxes and their docked parts reach to either side of x. */
  reach: Reach;
  /** Per node, the width of its border, px, and its docked parts. */
  width: Float64Array;
  hanging?: Hanging | undefined;
  /** The x of edges that run around, px. */
  lane: number;
  /** The borders of boxes and of ranks, px. */
  boxTop: Float64Array;
  boxBottom: Float64Array;
  bandTop: Float64Array;
  bandBottom: Float64Array;
}

/** Distance between two lines that leave one border side by side, px. */
const PORT_GAP = 12;

/** How far ports may be from the middle of a border, px. */
function roomOn(width: number): number {
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
    isotonic(count, wish, wish.slice().fill(1), wish.slice().fill(gap), makePoolScratch(count));
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
