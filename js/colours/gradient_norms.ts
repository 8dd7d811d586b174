import { normOf } from "../scene/parameters";
import type { GraphModel, RunModel } from "../wire";

/** Norms of the gradients of one backward pass. NaN: not known. Infinity: the gradient contains NaN or Inf. */
export interface GradientNorms {
  edges: Float64Array;
  /** Per graph node, the norm of its largest incoming gradient; for a leaf, of its `.grad`. */
  nodes: Float64Array;
}

export function gradientNorms(graph: GraphModel, run: RunModel): GradientNorms {
  const edges = new Float64Array(graph.edges.length).fill(Number.NaN);
  const nodes = new Float64Array(graph.nodes.length).fill(Number.NaN);
  const arrive = (node: number, norm: number) => {
    if (!Number.isNaN(norm) && !(norm <= nodes[node])) nodes[node] = norm;
  };
  run.edges.forEach((edge, i) => {
    edges[edge] = normOf(run.norms[i]);
    arrive(graph.edges[edge].target, edges[edge]);
  });
  for (const { node, norm } of run.seeds) arrive(node, normOf(norm));
  for (const { node, norm } of run.grads)
    if (graph.nodes[node].kind === "leaf" && norm !== null) nodes[node] = normOf(norm);
  return { edges, nodes };
}
