import { deepest, toDepth, wholeFolding } from "../fold/folding";
import { foldedPlan, type GroupedGraph } from "../fold/grouped_graph";
import { perObject, remembered } from "../maps";
import { type Gradients, normOf, parametersGradient, parametersIn } from "../scene/parameters";
import type { GraphModel, RunModel } from "../wire";

/** Per graph, the parameters of each box that some folding shows; with hidden plumbing, and without. */
const boxesBy = perObject((grouped: GroupedGraph) =>
  remembered((hidesPlumbing: boolean) => boxesOf(grouped, hidesPlumbing)),
);

/** The gradient norms of all boxes that some folding shows, so that the scale of a pass is the same in each. */
export function passNorms(
  grouped: GroupedGraph,
  gradients: Gradients,
  hidesPlumbing: boolean,
): number[] {
  const boxes = boxesBy(grouped)(hidesPlumbing);
  return boxes.map((leaves) => parametersGradient(leaves, gradients).norm);
}

/** The parameters of the innermost boxes, with what these absorb, and of all modules around them. */
function boxesOf(grouped: GroupedGraph, hidesPlumbing: boolean): (readonly number[])[] {
  const { tree, graph, parameters } = grouped;
  const { start } = tree.children;
  const isOuter = (g: number) => start[g + 1] > start[g];
  const whole = toDepth(tree, wholeFolding(tree), deepest(tree));
  const open = new Set([...whole.open].filter((path) => isOuter(tree.byPath.get(path) ?? 0)));
  const inner = foldedPlan(grouped, { ...whole, open, hidesPlumbing, foldsRepeats: false });
  const isParameter = parametersIn(graph);
  return [
    ...inner.nodes.map(({ group }) => group?.members.filter(isParameter) ?? []),
    ...parameters.leaves.filter((_, g) => g > 0 && isOuter(g)),
  ].filter(({ length }) => length > 0);
}

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
