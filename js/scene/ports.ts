import type { Layout } from "../layout/types";

/** The properties of an edge that ports need. */
interface Ported {
  source: number;
  argument: string | null;
}

type Point = [number, number];

/**
 * Move ports as little as possible until neighbours keep the given gaps, in order, within `room` to either side; the
 * pinned one stays. If a side is too small, its gaps shrink evenly.
 */
export function spread(
  offsets: readonly number[],
  gaps: readonly number[],
  pinned: number | null,
  room: number,
): number[] {
  const fitted = fitGaps(gaps, pinned, pinned === null ? 0 : offsets[pinned], room);
  const before = [0];
  for (const gap of fitted) before.push(before[before.length - 1] + gap);
  // Without the gaps, ports only need to stay in order: isotonic regression by pooling.
  const pools: { sum: number; weight: number; count: number }[] = [];
  offsets.forEach((offset, i) => {
    const weight = i === pinned ? PIN : 1;
    let pool = { sum: (offset - before[i]) * weight, weight, count: 1 };
    for (
      let last = pools.at(-1);
      last && last.sum / last.weight > pool.sum / pool.weight;
      last = pools.at(-1)
    ) {
      pool = {
        sum: pool.sum + last.sum,
        weight: pool.weight + last.weight,
        count: pool.count + last.count,
      };
      pools.pop();
    }
    pools.push(pool);
  });
  const total = before[before.length - 1];
  return pools
    .flatMap(({ sum, weight, count }) => Array.from({ length: count }, () => sum / weight))
    .map((at, i) => Math.max(-room, Math.min(room - total, at)) + before[i]);
}

/** A weight that keeps the port in place. */
const PIN = 1e6;

/** Gaps that fit on either side of the pinned port, or altogether. */
function fitGaps(
  gaps: readonly number[],
  pinned: number | null,
  at: number,
  room: number,
): number[] {
  const shrunk = (part: readonly number[], space: number) => {
    const wanted = part.reduce((sum, gap) => sum + gap, 0);
    return wanted > space ? part.map((gap) => (gap * Math.max(0, space)) / wanted) : part;
  };
  if (pinned === null) return [...shrunk(gaps, 2 * room)];
  return [...shrunk(gaps.slice(0, pinned), room + at), ...shrunk(gaps.slice(pinned), room - at)];
}

/** Between two labels, px: lines that bend alike bring them closer. */
const BETWEEN = 10;

/**
 * Per edge, where it leaves its source's box, across the flow: in the layout's order, with room for the arguments
 * between them. Edges from another side (`apart`) are ignored.
 */
export function leaveAt(
  routes: readonly Point[][],
  edges: readonly Ported[],
  apart: ArrayLike<number>,
  node: { centre(id: number): number; share(id: number): number; room(id: number): number },
  labelSize: (edge: Ported) => number,
): Float64Array {
  const at = new Float64Array(edges.length);
  const bySource = new Map<number, number[]>();
  edges.forEach(({ source }, i) => {
    if (apart[i]) return;
    const known = bySource.get(source);
    if (known) known.push(i);
    else bySource.set(source, [i]);
  });
  for (const [id, out] of bySource) {
    const centre = node.centre(id);
    const offset = (i: number) => (routes[i][0][0] - centre) * node.share(id);
    out.sort((a, b) => offset(a) - offset(b) || routes[a][1][0] - routes[b][1][0] || a - b);
    const gaps = out.slice(1).map((i, k) => {
      const other = out[k];
      // Edges that leave as one line share one port.
      return offset(i) - offset(other) < 0.01
        ? 0
        : (labelSize(edges[i]) + labelSize(edges[other])) / 2 + BETWEEN;
    });
    // A straight line keeps its port.
    const straight = out.findIndex((i) => Math.abs(routes[i][1][0] - routes[i][0][0]) < 0.5);
    const places = spread(out.map(offset), gaps, straight < 0 ? null : straight, node.room(id));
    out.forEach((i, k) => {
      at[i] = centre + places[k];
    });
  }
  return at;
}

/** Distance between parallel edges, px. */
const PARALLEL = 6;

/** The routes of a layout; edges on the same way run side by side. */
export function separateRoutes(
  placed: Pick<Layout, "route" | "edgeTarget">,
  edges: readonly Ported[],
): Point[][] {
  const routes = edges.map((_, i) => placed.route(i));
  const bundles = new Map<string, number[]>();
  edges.forEach(({ source }, i) => {
    const [, second] = routes[i];
    const key = `${source} ${placed.edgeTarget[i]} ${routes[i][0]} ${second}`;
    bundles.set(key, [...(bundles.get(key) ?? []), i]);
  });
  for (const bundle of bundles.values()) {
    const gap = Math.min(PARALLEL, 12 / bundle.length);
    bundle.forEach((edge, k) => {
      const shift = (k - (bundle.length - 1) / 2) * gap;
      for (const point of routes[edge]) point[0] += shift;
    });
  }
  return routes;
}
