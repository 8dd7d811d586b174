import { coordinates } from "./coordinates";
import { type Graph, inDegree, makeGraph, outDegree, tallest } from "./graph";
import { drawLines } from "./lines";
import { type Effort, orderRanks } from "./order";
import { addDummies, DETOUR, type Layered, rank, topological } from "./rank";
import { spine, withoutBentEnds } from "./spine";
import type { Border, Gaps, Hanging, LaidOut, Reach, Shifts } from "./types";
import { wrapColumns } from "./wrap";

/** A graph to lay out: a whole picture, a box' content, or a connected component of either. */
export interface Content {
  /** Nodes, then ports on the border. */
  graph: Graph;
  /** Sizes, px; ports may have none. */
  width: Float64Array;
  height: Float64Array;
  hanging?: Hanging | undefined;
  /** Absent without boxes. */
  border?: Border | undefined;
}

/** More crossings do not widen a gap further. */
const MOST_CROSSINGS = 7;

/** Lay out a connected component; with a border, as the content of a box. */
export function layoutComponent(content: Content, gaps: Gaps): LaidOut {
  const part = layoutUnwrapped(content, gaps);
  if (gaps.aspect === undefined) return part;
  const height = tallest(content.height, content.hanging);
  return wrapColumns(part, reachOf(content, content.graph.n), height, gaps.aspect, gaps);
}

function layoutUnwrapped(content: Content, gaps: Gaps): LaidOut {
  const { graph, width, height, hanging, border } = content;
  const { n } = graph;
  if (n === 1) {
    const { left, right } = reachOf(content, 1);
    return alone(left[0], right[0], tallest(height, hanging)[0]);
  }
  const rankAll = ranking(width, height, gaps);
  const ranked = border ? cutWithBorder(graph, border, rankAll) : cut(graph, rankAll);
  const { layered, first } = ranked;
  const reach = reachOf(content, layered.size);
  const { order, x } = ordered(graph, ranked, reach, gaps, border);
  const right = moveToZero(x, reach);
  const detour = Uint8Array.from(first, (dummy) => (dummy === DETOUR ? 1 : 0));
  const lane = right + gaps.nodeGap;
  const ranks = layered.rank.subarray(0, n);
  const least = leastGaps(layered, order, x, gaps, border);
  const sideways = steepest(layered, x, least.length);
  const bands = stackRanks(tallest(height, hanging), ranks, sideways, least, gaps.rankGap);
  const y = Float64Array.from(ranks, (r) => (bands.top[r] + bands.bottom[r]) / 2);
  const placed = {
    x,
    width,
    reach,
    hanging,
    lane,
    boxTop: y.map((middle, v) => middle - height[v] / 2),
    boxBottom: y.map((middle, v) => middle + height[v] / 2),
    bandTop: bands.top,
    bandBottom: bands.bottom,
  };
  return {
    x: x.subarray(0, n),
    y,
    rank: ranks,
    detour,
    lines: drawLines(graph, { ...layered, first }, order, placed, border),
    width: detour.includes(1) ? lane : right,
    height: bands.bottom[bands.bottom.length - 1],
  };
}

/** Order the ranks and place their nodes, with lines as straight as possible. */
function ordered(
  graph: Graph,
  { layered, first, isInRows }: Ranked,
  reach: Reach,
  gaps: Gaps,
  border?: Border,
): { order: Int32Array; x: Float64Array } {
  const effort = border && effortFor(layered.size);
  const orders = orderRanks(layered, effort).map((order) => {
    const followed = followInput(layered, order, border);
    return isInRows ? linesToMiddle(layered, followed) : followed;
  });
  const whole = spine(layered);
  const marked = border ? withoutBentEnds(graph, layered, whole, reach, border) : whole;
  const place = (order: Int32Array, room: Reach, shifts?: Shifts) =>
    coordinates(layered, order, room, shifts ? marked : whole, gaps, shifts);
  let candidates = orders;
  if (border && orders.length > 1) {
    // In a box, the order must not depend on open boxes.
    const nominal = reachOf({ width: border.nominal }, layered.size);
    candidates = [narrowest(layered, orders, (order) => place(order, nominal)).order];
  }
  const shifts = border && shiftsOf(graph, layered, first, border);
  return narrowest(layered, candidates, (order) => place(order, reach, shifts));
}

/** Per rank, the least gap below it; larger for crossings. */
function leastGaps(
  layered: Layered,
  order: Int32Array,
  x: Float64Array,
  { rankGap, crossGap, topGap, bottomGap }: Gaps,
  border?: Border,
): Float64Array {
  const depth = layered.ranks.start.length - 1;
  const least = new Float64Array(depth).fill(rankGap);
  if (border?.isTop.includes(1)) least[0] = topGap;
  if (border?.isTop.includes(0)) least[depth - 2] = bottomGap;
  if (crossGap > 0)
    for (let r = 0; r + 1 < depth; r++)
      least[r] += Math.min(MOST_CROSSINGS, crossingsBelow(layered, order, x, r)) * crossGap;
  return least;
}

/** Per rank, the longest sideways distance of a segment below it. */
function steepest({ size, rank, down }: Layered, x: Float64Array, depth: number): Float64Array {
  const result = new Float64Array(depth);
  for (let v = 0; v < size; v++) {
    const r = rank[v];
    for (let j = down.start[v]; j < down.start[v + 1]; j++)
      result[r] = Math.max(result[r], Math.abs(x[v] - x[down.item[j]]));
  }
  return result;
}

/** The number of crossings below a rank. */
function crossingsBelow(
  { ranks, down }: Layered,
  order: Int32Array,
  x: Float64Array,
  r: number,
): number {
  const segments: [number, number][] = [];
  for (let i = ranks.start[r]; i < ranks.start[r + 1]; i++) {
    const v = order[i];
    for (let j = down.start[v]; j < down.start[v + 1]; j++) segments.push([x[v], x[down.item[j]]]);
  }
  let count = 0;
  segments.forEach(([a, b], i) => {
    for (const [c, d] of segments.slice(i + 1)) if ((a - c) * (b - d) < 0) count++;
  });
  return count;
}

/** The effort for one of many boxes: it depends only on its own size, so that opening one keeps the others. */
function effortFor(size: number): Effort {
  const small = Math.min(1, size / 4000);
  return { visits: 30_000 * small, steps: 1_200_000 * small, choices: size < 150 ? 2 : 1 };
}

/** The ranked graph with cut long edges, the first dummy of each edge, and whether rows of leaves were broken. */
interface Ranked {
  layered: Layered;
  first: Int32Array;
  isInRows: boolean;
}

function cut(graph: Graph, rankAll: Ranking): Ranked {
  const { ranks, isInRows } = rankAll(graph);
  const layered = addDummies(graph, ranks, undefined, isInRows);
  return { layered, first: layered.first, isInRows };
}

/** The same between ports. Lines between the same boxes share dummies, so that opening a box adds none. */
function cutWithBorder(graph: Graph, border: Border, rankAll: Ranking): Ranked {
  const { simple, standIn } = withoutParallels(graph);
  let isInRows = false;
  const ranks = rankWithPorts(simple, border, (inner) => {
    const ranked = rankAll(inner);
    isInRows = ranked.isInRows;
    return ranked.ranks;
  });
  const layered = addDummies(simple, ranks, undefined, isInRows);
  // A port takes as much room as a line.
  return {
    layered: { ...layered, n: graph.n - border.isTop.length },
    first: standIn.map((e) => layered.first[e]),
    isInRows,
  };
}

type Ranking = (graph: Graph) => { ranks: Int32Array; isInRows: boolean };

/** Rank the nodes, and break endless rows of leaves if an aspect is wanted. */
function ranking(width: Float64Array, height: Float64Array, spacing: Gaps): Ranking {
  return (graph) => {
    const ranks = rank(graph, topological(graph));
    const { aspect } = spacing;
    const rows =
      aspect === undefined ? null : wrapRows(graph, ranks, width, height, { ...spacing, aspect });
    return { ranks: rows ?? ranks, isInRows: rows !== null };
  };
}

function reachOf(
  { width, border, hanging }: Omit<Content, "graph" | "height">,
  size: number,
): Reach {
  const reach = { left: new Float64Array(size), right: new Float64Array(size) };
  for (let v = 0; v < width.length; v++) {
    const lean = border?.lean[v] ?? 0;
    reach.left[v] = width[v] / 2 + lean + (hanging?.left[v] ?? 0);
    reach.right[v] = width[v] / 2 - lean + (hanging?.right[v] ?? 0);
  }
  return reach;
}

/** A shortcut for a single node, the most common component. */
function alone(left: number, right: number, height: number): LaidOut {
  return {
    x: Float64Array.of(left),
    y: Float64Array.of(height / 2),
    rank: new Int32Array(1),
    detour: new Uint8Array(0),
    lines: { start: new Int32Array(1), points: [] },
    width: left + right,
    height,
  };
}

/** Return the order with the straightest lines among those with equally few crossings. */
function narrowest(
  layered: Layered,
  orders: Int32Array[],
  place: (order: Int32Array) => Float64Array,
): { order: Int32Array; x: Float64Array } {
  let best = { order: orders[0], x: place(orders[0]), sideways: Infinity };
  if (orders.length === 1) return best;
  for (const order of orders) {
    const x = place(order);
    let sideways = 0;
    for (let v = 0; v < layered.size; v++) {
      for (let j = layered.down.start[v]; j < layered.down.start[v + 1]; j++) {
        sideways += Math.abs(x[v] - x[layered.down.item[j]]);
      }
    }
    // A small gain does not justify leaving the input's order.
    if (sideways < 0.98 * best.sideways) best = { order, x, sideways };
  }
  return best;
}

/** Round to half pixels with the leftmost border at 0 or just right of it, and return the rightmost border. */
function moveToZero(x: Float64Array, reach: Reach): number {
  let left = Infinity;
  for (let v = 0; v < x.length; v++) {
    // Rounding makes almost straight lines straight.
    x[v] = Math.round(x[v] * 2) / 2;
    left = Math.min(left, x[v] - reach.left[v]);
  }
  const shift = Math.ceil(-left * 2) / 2;
  let right = 0;
  for (let v = 0; v < x.length; v++) {
    x[v] += shift;
    right = Math.max(right, x[v] + reach.right[v]);
  }
  return right;
}

/** The top and bottom of each rank; a gap grows if its lines would be too flat. */
function stackRanks(
  height: Float64Array,
  rank: Int32Array,
  sideways: Float64Array,
  least: Float64Array,
  rankGap: number,
): { top: Float64Array; bottom: Float64Array } {
  const depth = least.length;
  const top = new Float64Array(depth);
  const bottom = new Float64Array(depth);
  for (let v = 0; v < rank.length; v++) bottom[rank[v]] = Math.max(bottom[rank[v]], height[v]);
  let y = 0;
  for (let r = 0; r < depth; r++) {
    top[r] = y;
    bottom[r] += y;
    // At least one pixel, because lines slant only in the gaps.
    y = bottom[r] + Math.max(1, least[r], Math.min(2.5 * rankGap, sideways[r] / 8));
  }
  return { top, bottom };
}

/** Fewer rows are not worth it. */
const LEAST_ROWS = 3;

/**
 * Spread the leaves of a node with very many over several ranks instead of one endless row. `rank`, `width` and
 * `height` have an entry per node; `aspect` is the wanted width over height; sizes and gaps are px. Returns the new
 * ranks, or null if nothing is that wide. Only leaves move, and only down.
 */
function wrapRows(
  graph: Graph,
  rank: Int32Array,
  width: Float64Array,
  height: Float64Array,
  { nodeGap, rankGap, aspect }: { nodeGap: number; rankGap: number; aspect: number },
): Int32Array | null {
  let result: Int32Array | null = null;
  for (let v = 0; v < graph.n; v++) {
    if (outDegree(graph, v) < LEAST_ROWS * LEAST_ROWS) continue;
    const leaves: number[] = [];
    let area = 0;
    for (let i = graph.out.start[v]; i < graph.out.start[v + 1]; i++) {
      const w = graph.target[graph.out.item[i]];
      if (outDegree(graph, w) > 0 || inDegree(graph, w) > 1) continue;
      leaves.push(w);
      area += (width[w] + nodeGap) * (height[w] + rankGap);
    }
    const rowWidth = Math.sqrt(area * aspect);
    let right = 0;
    let row = 0;
    const rows = leaves.map((w) => {
      if (right > 0 && right + width[w] > rowWidth) {
        row++;
        right = 0;
      }
      right += width[w] + nodeGap;
      return row;
    });
    if (row + 1 < LEAST_ROWS) continue;
    result ??= rank.slice();
    for (let i = 0; i < leaves.length; i++) result[leaves[i]] = rank[v] + 1 + rows[i];
  }
  return result;
}

/** Move a line to further rows to the middle of the leaves that it leaves between. */
function linesToMiddle(layered: Layered, order: Int32Array): Int32Array {
  const { n, size, down, up } = layered;
  const result = order.slice();
  const place = new Int32Array(size);
  for (let i = 0; i < size; i++) place[order[i]] = i;
  for (let v = 0; v < size; v++) {
    const below = Array.from(down.item.subarray(down.start[v], down.start[v + 1]));
    const lines = below.filter((w) => w >= n);
    const leaves = below.filter((w) => w < n && down.start[w + 1] === down.start[w]);
    if (lines.length !== 1 || leaves.length + 1 !== below.length) continue;
    if (below.some((w) => up.start[w + 1] - up.start[w] > 1)) continue;
    const places = below.map((w) => place[w]).sort((a, b) => a - b);
    // With other nodes between them, moving a line could add crossings.
    if (places[places.length - 1] - places[0] >= places.length) continue;
    leaves.sort((a, b) => place[a] - place[b]);
    leaves.splice(leaves.length >> 1, 0, lines[0]);
    leaves.forEach((w, i) => {
      result[places[i]] = w;
    });
  }
  return result;
}

/**
 * Move an order closer to the wanted one of ports, else to the input's, without more crossings: mirror the picture, and
 * sort leaves of one parent.
 */
export function followInput(layered: Layered, order: Int32Array, border?: Border): Int32Array {
  const { size, ranks, down } = layered;
  const position = new Int32Array(size);
  for (let i = 0; i < size; i++) position[order[i]] = i;
  let kept = border ? size * size * agreement(border, position.subarray(layered.n)) : 0;
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

/** The number of pairs of ports in the wanted order, minus those in the other one. */
function agreement({ isTop, wish }: Border, position: Int32Array): number {
  let sum = 0;
  for (let i = 0; i < wish.length; i++)
    for (let j = 0; j < i; j++)
      if (isTop[i] === isTop[j])
        sum += Math.sign((wish[i] - wish[j]) * (position[i] - position[j])) || 0;
  return sum;
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

/** Use the ranks of `rankInside`, with the top ports in a rank before them and the bottom ports in one after. */
function rankWithPorts(
  graph: Graph,
  { isTop }: Border,
  rankInside: (graph: Graph) => Int32Array,
): Int32Array {
  const inside = graph.n - isTop.length;
  const edges = Int32Array.from(graph.source.keys()).filter(
    (e) => graph.source[e] < inside && graph.target[e] < inside,
  );
  const inner = makeGraph(
    inside,
    edges.map((e) => graph.source[e]),
    edges.map((e) => graph.target[e]),
  );
  const shift = isTop.includes(1) ? 1 : 0;
  const result = new Int32Array(graph.n);
  let bottom = 0;
  rankInside(inner).forEach((r, v) => {
    result[v] = r + shift;
    bottom = Math.max(bottom, result[v] + 1);
  });
  for (let v = inside; v < graph.n; v++) result[v] = isTop[v - inside] ? 0 : bottom;
  return result;
}

/** Merge parallel edges; also returns, per edge, the one that replaces it. */
function withoutParallels(graph: Graph): { simple: Graph; standIn: Int32Array } {
  const { n, source, target } = graph;
  const seen = new Map<number, number>();
  const kept: number[] = [];
  const standIn = Int32Array.from(source, (v, e) => {
    const key = v * n + target[e];
    let found = seen.get(key);
    if (found === undefined) {
      found = kept.push(e) - 1;
      seen.set(key, found);
    }
    return found;
  });
  const pick = (ends: Int32Array) => Int32Array.from(kept, (e) => ends[e]);
  return { simple: makeGraph(n, pick(source), pick(target)), standIn };
}

/** The shifts for lines with fixed places on their boxes; parallel edges use their mean. */
function shiftsOf(
  graph: Graph,
  layered: Layered,
  first: Int32Array,
  { leave, arrive }: Border,
): Shifts | undefined {
  if (leave.every(Number.isNaN) && arrive.every(Number.isNaN)) return undefined;
  const { rank, down, up, size } = layered;
  const sum = new Map<number, { sum: number; count: number }>();
  const note = (u: number, v: number, shift: number) => {
    const key = u * size + v;
    const known = sum.get(key);
    if (known) {
      known.sum += shift;
      known.count++;
    } else sum.set(key, { sum: shift, count: 1 });
  };
  for (let e = 0; e < first.length; e++) {
    const [s, t] = [graph.source[e], graph.target[e]];
    const out = leave[e] || 0;
    const into = arrive[e] || 0;
    // The lower end is aligned when its place on its box is below the upper end's place.
    if (first[e] === -1) note(s, t, out - into);
    else if (first[e] >= 0) {
      note(s, first[e], out);
      note(first[e] + rank[t] - rank[s] - 2, t, -into);
    }
  }
  const result = {
    down: new Float64Array(down.item.length),
    up: new Float64Array(up.item.length),
  };
  for (let v = 0; v < size; v++) {
    for (let j = down.start[v]; j < down.start[v + 1]; j++) {
      const known = sum.get(v * size + down.item[j]);
      if (known) result.down[j] = -known.sum / known.count;
    }
    for (let j = up.start[v]; j < up.start[v + 1]; j++) {
      const known = sum.get(up.item[j] * size + v);
      if (known) result.up[j] = known.sum / known.count;
    }
  }
  return result;
}
