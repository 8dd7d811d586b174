import type { Graph } from "../graph";

/**
 * Edges to turn around so that the others make no cycle: those that lead back into the path that a depth-first walk is
 * on. Boxes often form cycles where the graph has none, since a module can be called again after another one.
 *
 * Args:
 *   graph: any directed graph.
 *   order: its nodes in the order in which walks start from them; those without edges in come before all others.
 *
 * Returns per edge 1 if it is turned around.
 */
export function backEdges(graph: Graph, order: Int32Array): Uint8Array {
  const { n, target, out } = graph;
  const result = new Uint8Array(target.length);
  const onPath = new Uint8Array(n);
  const seen = new Uint8Array(n);
  const next = out.start.slice(0, n);
  const path: number[] = [];
  const enter = (v: number) => {
    seen[v] = onPath[v] = 1;
    path.push(v);
  };
  const walk = (root: number) => {
    if (seen[root]) return;
    enter(root);
    while (path.length > 0) {
      const v = path[path.length - 1];
      if (next[v] === out.start[v + 1]) {
        onPath[v] = 0;
        path.pop();
        continue;
      }
      const e = out.item[next[v]++];
      const w = target[e];
      if (onPath[w]) result[e] = 1;
      else if (!seen[w]) enter(w);
    }
  };
  for (const v of order) if (graph.in.start[v] === graph.in.start[v + 1]) walk(v);
  for (const v of order) walk(v);
  return result;
}
