import { GAPS, type Prepared } from "./prepare";
import { flat, type Placed } from "./tools";

/** Graphviz measures in inches of 72 points; a point stands for a pixel here. */
const POINTS = 72;

/** A curve is judged by so many straight pieces per Bézier segment. */
const PIECES = 8;

/** The graph as Graphviz reads it: boxes of the given sizes, without words. */
export function dotSource({ n, source, target, width, height }: Prepared): string {
  const lines = [
    "digraph {",
    `graph [nodesep=${GAPS.nodeGap / POINTS}, ranksep=${GAPS.rankGap / POINTS}]`,
    'node [shape=box, fixedsize=true, label=""]',
    "edge [arrowhead=none]",
  ];
  for (let v = 0; v < n; v++) {
    lines.push(`${v} [width=${width[v] / POINTS}, height=${height[v] / POINTS}]`);
  }
  for (let e = 0; e < source.length; e++) lines.push(`${source[e]} -> ${target[e]} [id=${e}]`);
  lines.push("}");
  return lines.join("\n");
}

/** A picture as `dot -Tjson0` tells it. */
interface DotPicture {
  objects: { name: string; pos: string }[];
  edges?: { id: string; pos: string }[];
}

/** Positions from what `dot -Tjson0` wrote; its y grows upwards. */
export function readDot(text: string, { n, source }: Prepared): Placed {
  const { objects, edges = [] }: DotPicture = JSON.parse(text);
  const x = new Float64Array(n);
  const y = new Float64Array(n);
  for (const { name, pos } of objects) {
    const [px, py] = pos.split(",").map(Number);
    x[Number(name)] = px;
    y[Number(name)] = -py;
  }
  const lines: [number, number][][] = source.map(() => []);
  for (const { id, pos } of edges) lines[Number(id)] = flatten(controlPoints(pos));
  return { x, y, ...flat(lines) };
}

function controlPoints(pos: string): [number, number][] {
  // A letter would mark a start or end with an arrow; there are none.
  return pos.split(" ").map((pair) => {
    const [x, y] = pair.split(",").map(Number);
    return [x, -y];
  });
}

/** Straight pieces along a chain of cubic Bézier curves. */
function flatten(control: [number, number][]): [number, number][] {
  const points: [number, number][] = [control[0]];
  for (let i = 1; i + 2 < control.length; i += 3) {
    const [p0, p1, p2, p3] = [control[i - 1], control[i], control[i + 1], control[i + 2]];
    for (let k = 1; k <= PIECES; k++) {
      const t = k / PIECES;
      const s = 1 - t;
      const at = (axis: 0 | 1) =>
        s * s * s * p0[axis] +
        3 * s * s * t * p1[axis] +
        3 * s * t * t * p2[axis] +
        t * t * t * p3[axis];
      points.push([at(0), at(1)]);
    }
  }
  return points;
}
