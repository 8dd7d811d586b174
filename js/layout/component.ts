import { coordinates, type Gaps } from "./coordinates";
import { addDummies, DETOUR, type Layered } from "./dummies";
import { followInput } from "./given";
import type { Graph } from "./graph";
import { drawLines, type Lines } from "./lines";
import { orderRanks } from "./order";
import { rank, topological } from "./rank";
import { spine } from "./spine";

/** One connected component, its top left corner at 0, 0. Lengths in px. */
export interface LaidOut {
  x: Float64Array;
  y: Float64Array;
  rank: Int32Array;
  detour: Uint8Array;
  lines: Lines;
  width: number;
  height: number;
}

export function layoutComponent(
  graph: Graph,
  width: Float64Array,
  height: Float64Array,
  gaps: Gaps & { rankGap: number },
): LaidOut {
  const { n } = graph;
  const m = graph.source.length;
  if (n === 1) return alone(width[0], height[0]);
  const ranks = rank(graph, topological(graph));
  const layered = addDummies(graph, ranks);
  const allWidths = new Float64Array(layered.size);
  allWidths.set(width);
  const orders = orderRanks(layered).map((order) => followInput(layered, order));
  const { order, x } = narrowest(layered, orders, (order) =>
    coordinates(layered, order, allWidths, spine(layered), gaps),
  );
  const right = moveToZero(x, allWidths);
  const detour = new Uint8Array(m);
  for (let e = 0; e < m; e++) if (layered.first[e] === DETOUR) detour[e] = 1;
  const lane = right + gaps.nodeGap;

  const bands = stackRanks(layered.ranks.start.length - 1, height, ranks, steepest(), gaps.rankGap);
  const y = new Float64Array(n);
  const boxTop = new Float64Array(n);
  const boxBottom = new Float64Array(n);
  for (let v = 0; v < n; v++) {
    y[v] = (bands.top[ranks[v]] + bands.bottom[ranks[v]]) / 2;
    boxTop[v] = y[v] - height[v] / 2;
    boxBottom[v] = y[v] + height[v] / 2;
  }
  const placed = {
    x,
    width: allWidths,
    boxTop,
    boxBottom,
    bandTop: bands.top,
    bandBottom: bands.bottom,
  };
  return {
    x: x.subarray(0, n),
    y,
    rank: ranks,
    detour,
    lines: drawLines(graph, layered, order, placed, lane),
    width: detour.includes(1) ? lane : right,
    height: bands.bottom[bands.bottom.length - 1],
  };

  /** Per rank, the greatest sideways distance of a segment below it. */
  function steepest(): Float64Array {
    const result = new Float64Array(layered.ranks.start.length - 1);
    for (let v = 0; v < layered.size; v++) {
      const r = layered.rank[v];
      for (let j = layered.down.start[v]; j < layered.down.start[v + 1]; j++) {
        result[r] = Math.max(result[r], Math.abs(x[v] - x[layered.down.item[j]]));
      }
    }
    return result;
  }
}

/** A node without edges, the commonest component, without the ado. */
function alone(width: number, height: number): LaidOut {
  return {
    x: Float64Array.of(width / 2),
    y: Float64Array.of(height / 2),
    rank: new Int32Array(1),
    detour: new Uint8Array(0),
    lines: { start: new Int32Array(1), points: [] },
    width,
    height,
  };
}

/** Of orders with equally few crossings, the one whose lines go least sideways. */
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
    // A pixel or two is no reason to leave the input's order.
    if (sideways < 0.98 * best.sideways) best = { order, x, sideways };
  }
  return best;
}

/** Shifts all to half pixels, the leftmost border at or just right of 0, and returns the rightmost border. */
function moveToZero(x: Float64Array, width: Float64Array): number {
  let left = Infinity;
  for (let v = 0; v < x.length; v++) {
    // Rounding turns "straight but for 1e-12" into straight.
    x[v] = Math.round(x[v] * 2) / 2;
    left = Math.min(left, x[v] - width[v] / 2);
  }
  const shift = Math.ceil(-left * 2) / 2;
  let right = 0;
  for (let v = 0; v < x.length; v++) {
    x[v] += shift;
    right = Math.max(right, x[v] + width[v] / 2);
  }
  return right;
}

/** Top and bottom of each rank's band; a gap grows where lines below it would be too flat to follow. */
function stackRanks(
  depth: number,
  height: Float64Array,
  rank: Int32Array,
  sideways: Float64Array,
  rankGap: number,
): { top: Float64Array; bottom: Float64Array } {
  const top = new Float64Array(depth);
  const bottom = new Float64Array(depth);
  for (let v = 0; v < rank.length; v++) bottom[rank[v]] = Math.max(bottom[rank[v]], height[v]);
  let y = 0;
  for (let r = 0; r < depth; r++) {
    top[r] = y;
    bottom[r] += y;
    // At least a pixel: lines slant only in the gaps.
    y = bottom[r] + Math.max(1, rankGap, Math.min(2.5 * rankGap, sideways[r] / 8));
  }
  return { top, bottom };
}
