/**
 * Layered graph layout: a pure function from node sizes and edges to positions and lines.
 *
 *   check        refuse what cannot be laid out, in a sentence
 *   copies       one copy of a shared leaf per use
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
import type { Layout, LayoutInput, LayoutOptions } from "./types";

/** Lays out a directed acyclic multigraph with edges running down. Throws an Error with a sentence on bad input. */
export function layout(input: LayoutInput, options: LayoutOptions = {}): Layout {
  check(input, options);
  const { nodeGap = 24, rankGap = 40, edgeGap = 14 } = options;
  const { edgeTarget, owner } = copyShared(input.n, input.source, input.target, input.shared);
  const width = new Float64Array(owner.length);
  const height = new Float64Array(owner.length);
  for (let v = 0; v < owner.length; v++) {
    width[v] = input.width[owner[v]];
    height[v] = input.height[owner[v]];
  }
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
    const widths = width.slice(0, nodes.length);
    const heights = height.slice(0, nodes.length);
    for (let i = 0; i < nodes.length; i++) {
      widths[i] = width[nodes[i]];
      heights[i] = height[nodes[i]];
    }
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
  // Per edge, its part and its number there.
  const partOf = new Int32Array(source.length).fill(-1);
  const number = new Int32Array(source.length);
  parts.forEach((part, c) => {
    const { x, y, rank } = laidOut[c];
    for (let i = 0; i < part.nodes.length; i++) {
      const v = part.nodes[i];
      result.x[v] = x[i] + packed.left[c];
      result.y[v] = y[i] + packed.top[c];
      result.rank[v] = rank[i];
    }
    for (let k = 0; k < part.edges.length; k++) {
      partOf[edges[part.edges[k]]] = c;
      number[edges[part.edges[k]]] = k;
    }
  });
  const list: number[] = [];
  const pointStart = new Int32Array(source.length + 1);
  for (let e = 0; e < source.length; e++) {
    const c = partOf[e];
    if (c < 0) {
      const v = source[e];
      const right = result.x[v] + width[v] / 2;
      const bulge = Math.min(10, nodeGap / 2);
      list.push(...hook(right, result.y[v], bulge, height[v] / 2));
      result.width = Math.max(result.width, right + bulge);
    } else {
      const { lines, detour } = laidOut[c];
      result.detour[e] = detour[number[e]];
      for (let i = lines.start[number[e]]; i < lines.start[number[e] + 1]; i += 2) {
        list.push(lines.points[i] + packed.left[c], lines.points[i + 1] + packed.top[c]);
      }
    }
    pointStart[e + 1] = list.length;
  }
  const points = Float64Array.from(list);
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
