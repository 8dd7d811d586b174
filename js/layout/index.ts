/**
 * Layered graph layout: a pure function from node sizes and edges to positions and lines.
 *
 *   check        refuse what cannot be laid out, in a sentence
 *   copies       one copy of a shared leaf per use
 *   components   each connected component on its own, packed side by side
 *   rank         rows: hanging trees peeled, longest paths, balancing sweeps
 *   dummies      long edges cut so that every segment joins neighbouring rows
 *   order        order within rows: several starts (start), barycentre sweeps (sweep), greedy switching (switch), whole
 *                lines moved at once (reinsert); the fewest crossings (crossings) win, then the input's order (given)
 *   coordinates  x: the spine on one line (spine), isotonic-regression sweeps (isotonic), straight lines (runs,
 *                straighten, push)
 *   lines        polylines from port to port (route)
 *   wrap         if asked, what is too tall in columns (cuts), what is too wide in rows (rows)
 *
 * This is Sugiyama's method. Every step is iterative and close to linear in nodes plus dummies, works on typed arrays,
 * leaves its input alone, and gives the same picture for the same input. All lengths are CSS pixels, y grows downwards.
 */
import { check } from "./check";
import { layoutComponent } from "./component";
import { pack, split } from "./components";
import { copyShared } from "./copies";
import { makeGraph } from "./graph";
import { topological } from "./rank";

export interface LayoutInput {
  /** Number of nodes. */
  n: number;
  /** Per edge, the node it leaves; drawn above the target. */
  source: ArrayLike<number>;
  /** Per edge, the node it ends at. */
  target: ArrayLike<number>;
  /** Per node, the width of its box, px. */
  width: ArrayLike<number>;
  /** Per node, the height of its box, px. */
  height: ArrayLike<number>;
  /** Per node, 1 for a leaf to be drawn once per use; ignored on a node with outgoing edges. */
  shared?: ArrayLike<number> | undefined;
}

export interface LayoutOptions {
  /** Least distance between two boxes in a row, px. Default 24. */
  nodeGap?: number;
  /** Least distance between two rows, px; grows where lines would be too flat. Default 40. */
  rankGap?: number;
  /** Least distance between a line and a box or line that it passes, px. Default 14. */
  edgeGap?: number;
  /**
   * Wanted width over height. What is far taller is wrapped into columns, and a fan of very many leaves into rows. Left
   * out, everything is drawn as tall and as wide as it comes.
   */
  aspect?: number;
}

export interface Layout {
  /** Centres of the drawn nodes, px: the n nodes, then the copies of shared leaves. */
  x: Float64Array;
  y: Float64Array;
  /** Per drawn node, the node it stands for: itself, or for a copy the shared leaf. */
  owner: Int32Array;
  /** Per drawn node, its row within its component, from 0 at the top. */
  rank: Int32Array;
  /** Per edge, the drawn node (a copy, perhaps) that it ends at. */
  edgeTarget: Int32Array;
  /** Per edge, 1 if it is too long to be worked into the picture and runs around it; better shown as two stubs. */
  detour: Uint8Array;
  /** Extent, px: all boxes and lines lie within 0..width, 0..height. */
  width: number;
  height: number;
  /** All polylines, flat: edge e has the x, y pairs in `points` from `pointStart[e]` to `pointStart[e + 1]`, px. */
  points: Float64Array;
  pointStart: Int32Array;
  /**
   * The polyline of an edge: [x, y] points, px, from the bottom border of its source to the top border of its target,
   * y never decreasing; but a line that goes on in the next column (with the option `aspect`) runs up between the two.
   * A self-loop takes no part in the layout: its line is a small hook at the box's right border.
   */
  route(edge: number): [number, number][];
}

/** Lays out a directed acyclic multigraph with edges running down. Throws an Error with a sentence on bad input. */
export function layout(input: LayoutInput, options: LayoutOptions = {}): Layout {
  check(input, options);
  const { nodeGap = 24, rankGap = 40, edgeGap = 14 } = options;
  const { edgeTarget, owner } = copyShared(input.n, input.source, input.target, input.shared);
  const width = Float64Array.from(owner, (v) => input.width[v]);
  const height = Float64Array.from(owner, (v) => input.height[v]);
  const source = Int32Array.from(input.source);

  const edges = Int32Array.from(source.keys()).filter((e) => source[e] !== edgeTarget[e]);
  const whole = makeGraph(
    owner.length,
    edges.map((e) => source[e]),
    edges.map((e) => edgeTarget[e]),
  );
  topological(whole); // so that a cycle is named by the caller's node numbers
  const parts = split(whole);
  const laidOut = parts.map(({ nodes, graph }) => {
    const widths = Float64Array.from(nodes, (v) => width[v]);
    const heights = Float64Array.from(nodes, (v) => height[v]);
    const gaps = { nodeGap, rankGap, edgeGap, aspect: options.aspect };
    return layoutComponent(graph, widths, heights, gaps);
  });
  const packed = pack(
    Float64Array.from(laidOut, (part) => part.width),
    Float64Array.from(laidOut, (part) => part.height),
    Math.max(nodeGap, rankGap),
  );

  const result = {
    x: new Float64Array(owner.length),
    y: new Float64Array(owner.length),
    owner,
    rank: new Int32Array(owner.length),
    edgeTarget,
    detour: new Uint8Array(source.length),
    width: packed.width,
    height: packed.height,
  };
  const lines: number[][] = [];
  parts.forEach((part, c) => {
    const { x, y, rank, detour, lines: inside } = laidOut[c];
    const [left, top] = [packed.left[c], packed.top[c]];
    part.nodes.forEach((v, i) => {
      result.x[v] = x[i] + left;
      result.y[v] = y[i] + top;
      result.rank[v] = rank[i];
    });
    part.edges.forEach((i, k) => {
      const line = inside.points.slice(inside.start[k], inside.start[k + 1]);
      lines[edges[i]] = line.map((value, at) => value + (at % 2 ? top : left));
      result.detour[edges[i]] = detour[k];
    });
  });
  for (let e = 0; e < source.length; e++) {
    const v = source[e];
    if (v !== edgeTarget[e]) continue;
    const right = result.x[v] + width[v] / 2;
    const bulge = Math.min(10, nodeGap / 2);
    lines[e] = hook(right, result.y[v], bulge, height[v] / 2);
    result.width = Math.max(result.width, right + bulge);
  }
  const { points, pointStart } = flatten(lines);
  return { ...result, points, pointStart, route: (edge) => routeOf(points, pointStart, edge) };
}

/** The line of a self-loop: out of the right border and back in, `tall` lower. */
export function hook(x: number, y: number, bulge: number, tall: number): number[] {
  const [top, bottom] = [y - tall / 2, y + tall / 2];
  return [x, top, x + bulge, top, x + bulge, bottom, x, bottom];
}

export function flatten(lines: number[][]): { points: Float64Array; pointStart: Int32Array } {
  const pointStart = new Int32Array(lines.length + 1);
  for (let e = 0; e < lines.length; e++) pointStart[e + 1] = pointStart[e] + lines[e].length;
  const points = new Float64Array(pointStart[lines.length]);
  for (let e = 0; e < lines.length; e++) points.set(lines[e], pointStart[e]);
  return { points, pointStart };
}

/** The points of one edge out of the flat arrays of a layout (which can cross to and from a worker). */
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
