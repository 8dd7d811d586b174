import { layoutContent } from "./content";
import { makeGraph, pickHanging } from "./graph";
import { hook, routeOf } from "./lines";
import { placeInBoxes } from "./nested";
import { topological } from "./rank";
import type { DrawnGraph, Gaps, Layout, LayoutInput, LayoutOptions, PlacedGraph } from "./types";

/**
 * Layered graph layout: a pure function from node sizes and edges to positions and lines.
 *
 *   copies       one copy of a shared leaf per use
 *   hanging      room for docked nodes, which are not laid out
 *   components   each connected component on its own, packed side by side
 *   rank         rows: hanging trees peeled, longest paths, balancing sweeps
 *   dummies      long edges cut so that every segment joins neighbouring rows
 *   order        order within rows: two starts (start), barycentre sweeps (sweep), greedy switching (switch), whole
 *                lines moved at once (reinsert); what is tangled all over is smoothed (smooth) and sifted (sift); the
 *                fewest crossings (crossings) win, then the input's order (given)
 *   coordinates  x: the spine on one line (spine), isotonic-regression sweeps (isotonic), straight lines (runs,
 *                straighten, push)
 *   lines        polylines from port to port (route)
 *   wrap         if asked, what is too tall in columns (cuts), what is too wide in rows (rows)
 *   nested       where there are boxes, all this for the content of each, the innermost first, in the order of the
 *                lines around
 *
 * This is Sugiyama's method. Every step is iterative and close to linear in nodes plus dummies, works on typed arrays,
 * leaves its input alone, and gives the same picture for the same input. All lengths are CSS pixels, y grows downwards.
 */

/** Lay out a directed multigraph with edges running down. Throws an Error for a cycle, or an edge without a node. */
export function layout(input: LayoutInput, options: LayoutOptions = {}): Layout {
  const {
    nodeGap = 24,
    rankGap = 40,
    edgeGap = 14,
    crossGap = 0,
    aspect,
    long = 1200,
    reversed = false,
  } = options;
  const { header = 28, padding = 16, side = 0, wrapsBoxes = true, wrapsWhole = true } = options;
  const distances = { nodeGap, rankGap, edgeGap, crossGap, topGap: 0, bottomGap: 0 };
  const gaps: Gaps = { ...distances, aspect, long, reversed };
  const graph = drawnGraph(input);
  const frame = { header, padding, side, wrapsBoxes, wrapsWhole };
  const placed = input.boxes
    ? placeInBoxes(graph, input.boxes, gaps, frame, options.cache ?? new Map())
    : placeAlone(graph, gaps);
  const { lines, ...rest } = placed;
  const { points, pointStart, right } = withLoops(graph, placed, Math.min(10, nodeGap / 2));
  return {
    ...rest,
    width: Math.max(placed.width, right),
    owner: graph.owner,
    edgeTarget: graph.target,
    points,
    pointStart,
    route: (edge) => routeOf(points, pointStart, edge),
  };
}

function drawnGraph(input: LayoutInput): DrawnGraph {
  const { n, source, target, shared, width, height, hanging } = input;
  const isNode = (v: number) => v >= 0 && v < n;
  for (let e = 0; e < source.length; e++)
    if (!isNode(source[e]) || !isNode(target[e]))
      throw new Error(
        `Edge ${e} joins ${source[e]} and ${target[e]}; the nodes are 0 to ${n - 1}.`,
      );
  const { edgeTarget, owner, ofOneUse } = copyShared(n, source, target, shared);
  return {
    owner,
    ofOneUse,
    width: Float64Array.from(owner, (v) => width[v]),
    height: Float64Array.from(owner, (v) => height[v]),
    hanging: hanging && pickHanging(hanging, owner),
    source: Int32Array.from(source),
    target: edgeTarget,
  };
}

/** Lay out an acyclic graph without boxes. */
function placeAlone(drawn: DrawnGraph, gaps: Gaps): PlacedGraph {
  const { owner, width, height, hanging, source, target } = drawn;
  const edges = Int32Array.from(source.keys()).filter((e) => source[e] !== target[e]);
  const graph = makeGraph(
    owner.length,
    edges.map((e) => source[e]),
    edges.map((e) => target[e]),
  );
  topological(graph); // so that a cycle is named by the caller's node numbers
  const { lines, detour, ...placed } = layoutContent({ graph, width, height, hanging }, gaps);
  const all = { start: new Int32Array(source.length + 1), detour: new Uint8Array(source.length) };
  edges.forEach((e, k) => {
    all.start[e + 1] = lines.start[k + 1] - lines.start[k];
    all.detour[e] = detour[k];
  });
  for (let e = 0; e < source.length; e++) all.start[e + 1] += all.start[e];
  const none = new Float64Array(0);
  const boxOf = new Int32Array(owner.length).fill(-1);
  return {
    ...placed,
    detour: all.detour,
    lines: { start: all.start, points: lines.points },
    boxes: { of: boxOf, left: none, top: none, width: none, height: none },
    backward: new Uint8Array(source.length),
  };
}

/** Add the lines of self-loops; `right` is how far they reach, px. */
function withLoops(
  { source, target, width, height }: DrawnGraph,
  { x, y, lines }: PlacedGraph,
  bulge: number,
) {
  const pointStart = lines.start.slice();
  const hooks = new Map<number, number[]>();
  let right = 0;
  let more = 0;
  for (let e = 0; e < source.length; e++) {
    const v = source[e];
    if (v === target[e]) {
      const line = hook(x[v] + width[v] / 2, y[v], bulge, height[v] / 2);
      hooks.set(e, line);
      right = Math.max(right, x[v] + width[v] / 2 + bulge);
      more += line.length;
    }
    pointStart[e + 1] += more;
  }
  if (more === 0) return { points: Float64Array.from(lines.points), pointStart, right };
  const points = new Float64Array(pointStart[source.length]);
  for (let e = 0; e < source.length; e++) {
    const line = hooks.get(e) ?? lines.points.slice(lines.start[e], lines.start[e + 1]);
    points.set(line, pointStart[e]);
  }
  return { points, pointStart, right };
}

/**
 * Give every use of a shared leaf its own copy, so that one weight used 200 times is not 200 long lines. The leaf
 * serves its first use; copies for the others are numbered from n in edge order. Nodes with outgoing edges are not
 * copied: that would copy everything below them.
 */
export function copyShared(
  n: number,
  source: ArrayLike<number>,
  target: ArrayLike<number>,
  shared?: ArrayLike<number>,
): { edgeTarget: Int32Array; owner: Int32Array; ofOneUse: Uint8Array } {
  const edgeTarget = Int32Array.from(target);
  const owner: number[] = [];
  const used = new Uint8Array(n);
  if (shared) {
    const inner = new Uint8Array(n);
    for (let e = 0; e < source.length; e++) inner[source[e]] = 1;
    for (let e = 0; e < edgeTarget.length; e++) {
      const v = edgeTarget[e];
      if (!shared[v] || inner[v]) continue;
      if (used[v]) edgeTarget[e] = n + owner.push(v) - 1;
      used[v] = 1;
    }
  }
  const all = Int32Array.from({ length: n + owner.length }, (_, v) => (v < n ? v : owner[v - n]));
  const ofOneUse = new Uint8Array(all.length);
  ofOneUse.set(used);
  ofOneUse.fill(1, n);
  return { edgeTarget, owner: all, ofOneUse };
}
