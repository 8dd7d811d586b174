import type { Border } from "./border";
import { DETOUR, type Layered } from "./dummies";
import type { Graph, Grouped } from "./graph";
import { addPoint, type Placed, port, ports, roomOn } from "./route";
import type { Lines } from "./types";

/** The distance of a slanting line from a neighbour, px: ports may still move. */
const CLEAR = 24;

/**
 * Draw every edge as a polyline, vertical within a rank and slanted only in the gaps between ranks. Edges without
 * dummies run around, on a lane at `lane`, px. Fixed ends stay.
 */
export function drawLines(
  graph: Graph,
  layered: Layered,
  order: Int32Array,
  placed: Placed,
  lane: number,
  fixed?: Border,
): Lines {
  const { source, target } = graph;
  const m = source.length;
  const { x, boxTop, boxBottom, bandTop, bandBottom } = placed;
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
  const arrive = portsOn(
    graph.n,
    graph.in,
    previous,
    beside(previous, source, startX),
    startX,
    placed,
  );
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

/**
 * The share of a line's sideways way that is left at a share of its height before its end, when it is a curve that
 * leaves steeply.
 */
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
