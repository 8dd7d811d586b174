import type { Hanging } from "./types";

/** Items grouped by key: those of key k are `item[start[k]] .. item[start[k + 1] - 1]`. */
export interface Grouped {
  start: Int32Array;
  item: Int32Array;
}

/** A directed multigraph on nodes 0..n-1, with its edges grouped by either end. */
export interface Graph {
  n: number;
  source: Int32Array;
  target: Int32Array;
  /** Edge indices by source, in input order. */
  out: Grouped;
  /** Edge indices by target, in input order. */
  in: Grouped;
}

/** Group the indices of `key` by value (a stable counting sort), without negative keys. */
export function group(n: number, key: Int32Array): Grouped {
  const start = new Int32Array(n + 1);
  for (const k of key) if (k >= 0) start[k + 1]++;
  for (let k = 0; k < n; k++) start[k + 1] += start[k];
  const item = new Int32Array(start[n]);
  const next = start.slice(0, n);
  for (let i = 0; i < key.length; i++) if (key[i] >= 0) item[next[key[i]]++] = i;
  return { start, item };
}

export function makeGraph(n: number, source: Int32Array, target: Int32Array): Graph {
  return { n, source, target, out: group(n, source), in: group(n, target) };
}

export function outDegree(graph: Graph, v: number): number {
  return graph.out.start[v + 1] - graph.out.start[v];
}

export function inDegree(graph: Graph, v: number): number {
  return graph.in.start[v + 1] - graph.in.start[v];
}

/** Select the docked parts of some nodes. */
export function pickHanging(
  { left, right, height }: Hanging<ArrayLike<number>>,
  nodes: ArrayLike<number>,
): Hanging {
  const pick = (of: ArrayLike<number>) => Float64Array.from(nodes, (v) => of[v] ?? 0);
  return { left: pick(left), right: pick(right), height: pick(height) };
}

/** The heights of nodes with their docked parts, px. */
export function tallest(height: Float64Array, hanging: Hanging | undefined): Float64Array {
  return hanging ? height.map((own, v) => Math.max(own, hanging.height[v])) : height;
}
