import type { Layered } from "./dummies";
import { type Graph, inDegree, outDegree } from "./graph";

/** Fewer rows are not worth it. */
const LEAST_ROWS = 3;

/**
 * Spread the leaves of a node with very many over several ranks instead of one endless row. `rank`, `width` and
 * `height` have an entry per node; `aspect` is the wanted width over height; sizes and gaps are px. Returns the new
 * ranks, or null if nothing is that wide. Only leaves move, and only down.
 */
export function wrapRows(
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
export function linesToMiddle(layered: Layered, order: Int32Array): Int32Array {
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
