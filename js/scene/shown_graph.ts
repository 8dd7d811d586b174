import { counted } from "../text/number";
import type { EdgeModel, GraphModel, NodeModel } from "../wire";
import { overRanks } from "./rank_strip";

/** Whether a node is one of autograd's own, which gradients can flow through. */
export function isAutograd({ kind }: Pick<NodeModel, "kind">): boolean {
  return kind === "op" || kind === "leaf";
}

/** Whether something works here: an operation, or a call inside of compiled code. */
export function isWork({ kind }: Pick<NodeModel, "kind">): boolean {
  return kind === "op" || kind === "call";
}

/** Whether a node is drawn whether or not constants are. */
function isAlwaysDrawn(node: Pick<NodeModel, "kind">): boolean {
  return isAutograd(node) || isWork(node);
}

/** Whether it is a constant written in the sign of the operation that uses it. */
export function isSaid({ said_by }: Pick<NodeModel, "said_by">): boolean {
  return said_by !== null;
}

/** What kind of graph it is. */
export function graphName(graph: GraphModel): string {
  return graph.static ? "Static graph" : "Autograd graph";
}

/** How many tensors go in, in words. */
export function leafCount(graph: GraphModel): string {
  const isHere = hereIn(graph);
  const leaves = graph.nodes.filter(({ kind, id }) => kind === "leaf" && isHere(id)).length;
  return graph.static ? counted(leaves, "input") : counted(leaves, "leaf", "leaves");
}

/**
 * How many nodes and edges of autograd's there are, of several ranks on the one that is shown: calls inside of compiled code
 * are none.
 */
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

/** Whether the rank that is shown has a node; so it is of every other graph. */
function hereIn(graph: GraphModel): (id: number) => boolean {
  const over = overRanks(graph);
  return (id) => over.get(id)?.here !== false;
}

/** Whether there are constants or cuts. */
export function hasConstants({ nodes }: GraphModel): boolean {
  return nodes.some((node) => !isAlwaysDrawn(node));
}

/**
 * The graph as it is to be drawn: without constants and cuts, or with them in place of the stubs that would stand for
 * the same inputs; with `torchNames`, operations are called as torch calls them and not as on a board. Ids and places of
 * what is left stay the same, because constants and cuts come last.
 */
export function shownGraph(given: GraphModel, constants: boolean, torchNames = false): GraphModel {
  const graph = fromCalls(torchNames ? withoutSigns(given) : given);
  if (!hasConstants(graph)) return graph;
  const covered = new Map<number, Set<number | null>>();
  for (const { source, target, input_nr, kind } of graph.edges) {
    if (kind !== "constant" || !(constants || isSaid(graph.nodes[target]))) continue;
    covered.set(source, (covered.get(source) ?? new Set()).add(input_nr));
  }
  const nodes = graph.nodes.map((node): NodeModel => {
    const drawn = covered.get(node.id);
    if (!drawn) return node;
    const stubs = node.no_grad_inputs.filter(({ input_nr }) => !drawn.has(input_nr));
    return { ...node, no_grad_inputs: stubs };
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

/** The gradients that an opened node passes on come from the calls inside of it. */
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

/** Of the edges that are merged into one line, the kind that says most: a gradient flows if it does along any. */
export function kindOfMerged(graph: GraphModel, edges: readonly number[]): EdgeModel["kind"] {
  const isOne = (kind: EdgeModel["kind"]) => edges.some((e) => graph.edges[e].kind === kind);
  if (isOne("gradient")) return "gradient";
  return isOne("cut") ? "cut" : "constant";
}

/** How many tensors go along a line that edges of the graph were merged into. */
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
