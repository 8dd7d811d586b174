import { valueAt } from "../maps";
import { counted } from "../text/number";
import type { EdgeModel, GraphModel, NodeModel } from "../wire";
import { overRanks } from "./rank_strip";

export function isAutograd({ kind }: Pick<NodeModel, "kind">): boolean {
  return kind === "op" || kind === "leaf";
}

export function isWork({ kind }: Pick<NodeModel, "kind">): boolean {
  return kind === "op" || kind === "call";
}

/** Whether a node is drawn even without constants. */
function isAlwaysDrawn(node: Pick<NodeModel, "kind">): boolean {
  return isAutograd(node) || isWork(node);
}

/** Whether its constant is in the sign of its user. */
export function isInSign({ said_by }: Pick<NodeModel, "said_by">): boolean {
  return said_by !== null;
}

/** The kind of graph, in words. */
export function graphName(graph: GraphModel): string {
  return graph.static ? "Static graph" : "Autograd graph";
}

/** The number of input tensors, in words. */
export function leafCount(graph: GraphModel): string {
  const isHere = hereIn(graph);
  const leaves = graph.nodes.filter(({ kind, id }) => kind === "leaf" && isHere(id)).length;
  return graph.static ? counted(leaves, "input") : counted(leaves, "leaf", "leaves");
}

/** The numbers of autograd nodes and edges; with ranks, of the shown one. Calls inside compiled code do not count. */
export function autogradSize(graph: GraphModel): { nodes: number; edges: number } {
  const { nodes, edges, ranks } = graph;
  const isHere = hereIn(graph);
  const others = new Set(ranks?.edges.flatMap(({ edge, here }) => (here ? [] : [edge])));
  return {
    nodes: nodes.filter((node) => isAutograd(node) && isHere(node.id)).length,
    edges: edges.filter(
      ({ source, target, kind }, i) =>
        kind === "gradient" &&
        isAutograd(nodes[source]) &&
        isAutograd(nodes[target]) &&
        !others.has(i),
    ).length,
  };
}

/** Test whether the shown rank has a node; true without ranks. */
function hereIn(graph: GraphModel): (id: number) => boolean {
  const over = overRanks(graph);
  return (id) => over.get(id)?.here !== false;
}

export function hasConstants({ nodes }: GraphModel): boolean {
  return nodes.some((node) => !isAlwaysDrawn(node));
}

/**
 * The graph to draw: with constants and cuts, or with stubs for the same inputs. With `torchNames`, operations have
 * torch's names instead of a board's. Ids and indices stay, because constants and cuts come last.
 */
export function shownGraph(given: GraphModel, constants: boolean, torchNames = false): GraphModel {
  const graph = fromCalls(torchNames ? withoutSigns(given) : given);
  if (!hasConstants(graph)) return graph;
  const covered = new Map<number, (number | null)[]>();
  for (const { source, target, arg_nr, kind } of graph.edges) {
    if (kind !== "constant" || !(constants || isInSign(graph.nodes[target]))) continue;
    valueAt(covered, source, () => []).push(arg_nr);
  }
  const nodes = graph.nodes.map((node): NodeModel => {
    const drawn = covered.get(node.id);
    if (!drawn) return node;
    const stubs = node.no_grad_inputs.filter(({ arg_nr }) => !drawn.includes(arg_nr));
    // The call of a layer names its operands differently from the operation in it.
    const others = drawn.filter((arg_nr) => arg_nr === null).length;
    return { ...node, no_grad_inputs: stubs.slice(others) };
  });
  if (constants) return { ...graph, nodes };
  return {
    ...graph,
    nodes: nodes.filter(isAlwaysDrawn),
    edges: graph.edges.filter(
      ({ source, target, kind }) =>
        kind === "gradient" || (isAlwaysDrawn(nodes[source]) && isWork(nodes[target])),
    ),
  };
}

/** The outgoing gradients of an opened node come from its calls. */
function fromCalls(graph: GraphModel): GraphModel {
  if (graph.edges.every(({ via }) => via === null)) return graph;
  const edges = graph.edges.map((edge) =>
    edge.via === null ? edge : { ...edge, source: edge.via },
  );
  return { ...graph, edges };
}

function withoutSigns(graph: GraphModel): GraphModel {
  return { ...graph, nodes: graph.nodes.map((node) => ({ ...node, sign: null })) };
}

/** The most important kind of the merged edges: a gradient flows if it does along any. */
export function kindOfMerged(graph: GraphModel, edges: readonly number[]): EdgeModel["kind"] {
  const isOne = (kind: EdgeModel["kind"]) => edges.some((e) => graph.edges[e].kind === kind);
  if (isOne("gradient")) return "gradient";
  return isOne("cut") ? "cut" : "constant";
}

/** The number of tensors on a merged line. */
export function tensorsIn(
  graph: GraphModel,
  parts: readonly number[],
  folded: readonly number[],
): number {
  if (parts.length === 1) return 1;
  const between = new Set(folded);
  const ends = parts.map((e) => graph.edges[e]).filter(({ target }) => !between.has(target));
  return new Set(ends.map(({ target, output_nr }) => `${target} ${output_nr}`)).size;
}
