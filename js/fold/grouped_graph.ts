import { MOST_CARDS } from "../scene/card";
import { withoutSteps } from "../scene/module_class";
import { type ModuleParameters, moduleParameters } from "../scene/parameters";
import type { Plan } from "../scene/plan";
import { isPlumbing } from "../scene/plumbing";
import { isWork } from "../scene/shown_graph";
import type { GraphModel, NodeModel } from "../wire";
import { reusedModules, scatteredContainers } from "./containers";
import { type Folding, LARGEST_WHOLE, openPaths } from "./folding";
import { OTHER, roleOfOp } from "./layers";
import { closedBoxes, type ReduceInput, reduce, type Visible } from "./reduce";
import { repeatedBlocks } from "./repeats";
import { planOf, stripsIn } from "./strips";
import { type GroupTree, groupTree, namespacesOf } from "./tree";

/** A graph with the data for folding. */
export interface GroupedGraph {
  graph: GraphModel;
  tree: GroupTree;
  source: Int32Array;
  target: Int32Array;
  /**
   * Per node, 1 if it may fold into an edge: it passes a tensor on, has no name and is not an output; 2 if it joins
   * tensors instead, which folds only at strips.
   */
  plumbing: Uint8Array;
  /** Per node, its role for a layer. */
  role: Uint8Array;
  /** Per group, its number of operations without plumbing. */
  operations: Int32Array;
  /** Per group, its class, null if unknown. User text. */
  kind: readonly (string | null)[];
  parameters: ModuleParameters;
  /** Paths of modules that have no box, because each of their operations is in another place. */
  reused: ReadonlySet<string>;
  /** Runs of similar groups; computed on first use. */
  readonly runs: readonly (readonly number[])[];
}

/** Operations that join tensors. */
const JOINS = /^(Stack|Cat)Backward/;

export function groupedGraph(graph: GraphModel): GroupedGraph {
  const outputs = new Set(graph.roots.map((root) => root.node));
  const [source, target] = [
    Int32Array.from(graph.edges, (edge) => edge.source),
    Int32Array.from(graph.edges, (edge) => edge.target),
  ];
  const { namespaces, classes, names } = graph.modules;
  const classAt = new Map(namespaces.map((path, i) => [path, names[classes[i]]]));
  const kindsOf = ({ path }: GroupTree) =>
    path.map((one) => classAt.get(withoutSteps(one)) ?? null);
  const namespaceOf = namespacesOf(graph);
  const whole = groupTree(namespaceOf);
  const edges = { source, target, tree: whole };
  const reused = reusedModules(edges, graph.nodes);
  const dissolved = new Set([...scatteredContainers(edges, kindsOf(whole)), ...reused]);
  const tree = dissolved.size > 0 ? groupTree(namespaceOf, dissolved) : whole;
  const isInner = (node: NodeModel) => isWork(node) && node.name === null && !outputs.has(node.id);
  const plumbing = Uint8Array.from(graph.nodes, (node) =>
    isInner(node) ? (isPlumbing(node.op) ? 1 : JOINS.test(node.op) ? 2 : 0) : 0,
  );
  const operations = new Int32Array(tree.path.length);
  graph.nodes.forEach((node, v) => {
    if (isWork(node) && plumbing[v] !== 1) operations[tree.groupOf[v]]++;
  });
  for (let g = operations.length - 1; g > 0; g--) operations[tree.parent[g]] += operations[g];
  const op = graph.nodes.map((node) => node.op);
  const kind = kindsOf(tree);
  const parameters = moduleParameters(graph, tree);
  let runs: number[][] | null = null;
  return {
    graph,
    tree,
    plumbing,
    operations,
    kind,
    parameters,
    reused,
    get runs() {
      const shapeOf = (leaf: number) => String(graph.nodes[leaf].shape);
      runs ??= repeatedBlocks({ source, target, tree, op }, { kind, shapeOf, ...parameters });
      return runs;
    },
    role: Uint8Array.from(graph.nodes, ({ id, kind, op }) =>
      kind === "call" ? OTHER : roleOfOp(kind, op, outputs.has(id)),
    ),
    source,
    target,
  };
}

export function foldedPlan(grouped: GroupedGraph, folding: Folding): Plan {
  const { tree, source, target, plumbing, role, operations } = grouped;
  const open = openPaths(folding);
  const input: ReduceInput = { source, target, tree, open };
  const strips = folding.foldsRepeats ? stripsIn(tree, grouped.runs, open) : [];
  const layers = { role, operations, apart: new Set(strips.flat()) };
  if (folding.hidesPlumbing) input.plumbing = { flag: plumbing, keep: folding.unfolded, layers };
  const reduced = reduce(input);
  const visible = isBoard(grouped, reduced) ? withoutInSign(reduced, grouped.graph) : reduced;
  return planOf(grouped, visible, strips, folding);
}

/** Whether the graph is drawn as a board, where an operation's sign includes its constant. */
function isBoard({ graph }: GroupedGraph, { nodes, nodeOf }: Visible): boolean {
  if (graph.static) return false;
  const inSign = graph.nodes.filter((_, v) => isInSign(graph, v, nodes, nodeOf));
  return nodes.length - inSign.length <= MOST_CARDS;
}

/** Whether a node is a constant that a drawn operation's sign includes. */
function isInSign(
  { nodes: given }: GraphModel,
  v: number,
  nodes: Visible["nodes"],
  nodeOf: Visible["nodeOf"],
): boolean {
  const by = given[v].said_by;
  if (by === null || nodeOf[v] < 0 || nodeOf[by] < 0) return false;
  return nodes[nodeOf[v]].group < 0 && nodes[nodeOf[by]].group < 0;
}

/** Merge each constant into the operation whose sign includes it. */
function withoutInSign({ nodes, edges, nodeOf }: Visible, graph: GraphModel): Visible {
  const isOut = new Uint8Array(nodes.length);
  nodeOf.forEach((at, v) => {
    if (isInSign(graph, v, nodes, nodeOf)) isOut[at] = 1;
  });
  let count = 0;
  const place = Int32Array.from(isOut, (out) => (out ? -1 : count++));
  const kept = edges.filter(({ source, target }) => !isOut[source] && !isOut[target]);
  const edgeOf = new Int32Array(graph.edges.length).fill(-1);
  kept.forEach((edge, i) => {
    for (const e of edge.edges) edgeOf[e] = i;
  });
  return {
    nodes: nodes.filter((_, at) => !isOut[at]),
    edges: kept.map((edge) => ({
      ...edge,
      source: place[edge.source],
      target: place[edge.target],
    })),
    nodeOf: nodeOf.map((at, v) => {
      const by = graph.nodes[v].said_by;
      return at < 0 || !isOut[at] || by === null ? (at < 0 ? -1 : place[at]) : place[nodeOf[by]];
    }),
    edgeOf,
  };
}

export function canFold({ tree, graph }: GroupedGraph): boolean {
  return tree.path.length > 1 || graph.nodes.length > LARGEST_WHOLE;
}

/** Estimate the number of visible nodes and boxes without a layout. */
export function visibleCount({ tree, plumbing }: GroupedGraph, folding: Folding): number {
  const closed = closedBoxes(tree, openPaths(folding));
  let count = closed.reduce((boxes, box, g) => boxes + (box === g ? 1 : 0), 0);
  tree.groupOf.forEach((g, v) => {
    const isFolded = folding.hidesPlumbing && plumbing[v] === 1 && !folding.unfolded.has(v);
    if (closed[g] < 0 && !isFolded) count++;
  });
  return count;
}
