/** A drawn edge: one edge of the graph, or several in a row with folded plumbing between them. */
export interface Line {
  source: number;
  target: number;
  /** Indices of its edges, from the source on. */
  edges: number[];
  /** Its folded nodes, from the source on. */
  folded: number[];
}

/**
 * Folds nodes that only pass a tensor on (views, casts, expands) into the edge that they sit on.
 *
 * Args:
 *   n: number of graph nodes.
 *   source, target: per edge, the graph nodes it joins.
 *   mayFold: whether a node may be folded; it is, if it has exactly one edge in and one out.
 *
 * Returns the lines in the order of their first edges. The graph must be acyclic.
 */
export function foldPlumbing(
  n: number,
  source: ArrayLike<number>,
  target: ArrayLike<number>,
  mayFold: (node: number) => boolean,
): Line[] {
  const above = new Int32Array(n);
  const below = new Int32Array(n);
  const out = new Int32Array(n).fill(-1);
  for (let e = 0; e < source.length; e++) {
    below[source[e]]++;
    above[target[e]]++;
    out[source[e]] = e;
  }
  const isFolded = Uint8Array.from({ length: n }, (_, v) =>
    above[v] === 1 && below[v] === 1 && mayFold(v) ? 1 : 0,
  );
  const lines: Line[] = [];
  for (let e = 0; e < source.length; e++) {
    if (isFolded[source[e]]) continue;
    const line: Line = { source: source[e], target: target[e], edges: [e], folded: [] };
    while (isFolded[line.target]) {
      line.folded.push(line.target);
      const next = out[line.target];
      line.edges.push(next);
      line.target = target[next];
    }
    lines.push(line);
  }
  return lines;
}
