import { MOST_CARDS } from "../scene/card";
import type { ClosedGroup, Plan } from "../scene/plan";
import type { GraphModel } from "../wire";
import { boxesAround } from "./boxes";
import { type Folding, openPaths } from "./folding";
import { OTHER, roleOfOp } from "./layers";
import { namespacesOf } from "./namespaces";
import { isPlumbing } from "./plumbing_ops";
import { type ReduceInput, reduce, type Visible } from "./reduce";
import { type GroupTree, groupTree } from "./tree";

/** A graph with all that folding needs to know of it. */
export interface GroupedGraph {
  graph: GraphModel;
  tree: GroupTree;
  source: Int32Array;
  target: Int32Array;
  op: string[];
  /** Per graph node, 1 if it may be folded into an edge: it hands a tensor on that has no name and is no output. */
  plumbing: Uint8Array;
  /** Per graph node, what it is to a layer. */
  role: Uint8Array;
  /** Per group, how many operations are in it, plumbing aside. */
  operations: Int32Array;
}

export function groupedGraph(graph: GraphModel): GroupedGraph {
  const outputs = new Set(graph.roots.map((root) => root.node));
  const tree = groupTree(namespacesOf(graph));
  const plumbing = Uint8Array.from(graph.nodes, ({ id, kind, op, name }) =>
    kind === "op" && name === null && !outputs.has(id) && isPlumbing(op) ? 1 : 0,
  );
  const operations = new Int32Array(tree.path.length);
  graph.nodes.forEach(({ kind }, v) => {
    if (kind === "op" && !plumbing[v]) operations[tree.groupOf[v]]++;
  });
  for (let g = operations.length - 1; g > 0; g--) operations[tree.parent[g]] += operations[g];
  return {
    graph,
    tree,
    plumbing,
    operations,
    role: Uint8Array.from(graph.nodes, ({ id, kind, op }) =>
      outputs.has(id) ? OTHER : roleOfOp(kind, op),
    ),
    source: Int32Array.from(graph.edges, (edge) => edge.source),
    target: Int32Array.from(graph.edges, (edge) => edge.target),
    op: graph.nodes.map((node) => node.op),
  };
}

/** What shows of a graph as it is folded. */
export function foldedPlan(grouped: GroupedGraph, folding: Folding): Plan {
  const { graph, tree, source, target, op, plumbing, role, operations } = grouped;
  const input: ReduceInput = { source, target, tree, open: openPaths(folding) };
  const layers = { role, operations };
  if (folding.hidesPlumbing) input.plumbing = { flag: plumbing, keep: folding.unfolded, layers };
  if (folding.foldsRepeats) input.repeats = { op, apart: folding.apart };
  const reduced = reduce(input);
  const visible = isBoard(grouped, reduced) ? withoutSaid(reduced, graph) : reduced;
  const boxes = boxesAround(visible, tree);
  const members: number[][] = visible.nodes.map(() => []);
  const said: number[][] = visible.nodes.map(() => []);
  visible.nodeOf.forEach((at, v) => {
    if (at < 0) return;
    if (visible.nodes[at].kind !== "node") members[at].push(v);
    else if (visible.nodes[at].node !== v && !visible.nodes[at].also?.includes(v)) said[at].push(v);
  });
  return {
    nodes: visible.nodes.map(({ kind, node, groups, also }, at) => ({
      id: node,
      group:
        kind === "node"
          ? null
          : ({ paths: groups.map((g) => tree.path[g]), members: members[at] } as ClosedGroup),
      frame: boxes.box[at],
      ...(said[at].length > 0 && { said: said[at] }),
      ...(also && { also }),
    })),
    edges: visible.edges.map((edge) => {
      const [first] = edge.edges;
      const isPlain = edge.count === 1 && visible.nodes[edge.source].kind === "node";
      return { ...edge, argument: isPlain ? graph.edges[first].argument : null };
    }),
    frames: Array.from(boxes.group, (g, i) => ({
      path: tree.path[g],
      parent: boxes.boxParent[i],
    })),
    nodeOf: visible.nodeOf,
    edgeOf: visible.edgeOf,
  };
}

/** Whether it is drawn as a board, where an operation's sign says the number that it takes. */
function isBoard({ graph }: GroupedGraph, { nodes, nodeOf }: Visible): boolean {
  if (graph.static) return false;
  const said = graph.nodes.filter((_, v) => isSaid(graph, v, nodes, nodeOf));
  return nodes.length - said.length <= MOST_CARDS;
}

/** Whether a node is a constant that stands in the sign of an operation that is drawn. */
function isSaid(
  { nodes: given }: GraphModel,
  v: number,
  nodes: Visible["nodes"],
  nodeOf: Visible["nodeOf"],
): boolean {
  const by = given[v].said_by;
  if (by === null || nodeOf[v] < 0 || nodeOf[by] < 0) return false;
  return nodes[nodeOf[v]].kind === "node" && nodes[nodeOf[by]].kind === "node";
}

/** The same with each constant that an operation's sign says in that operation. */
function withoutSaid({ nodes, edges, nodeOf }: Visible, graph: GraphModel): Visible {
  const isOut = new Uint8Array(nodes.length);
  nodeOf.forEach((at, v) => {
    if (isSaid(graph, v, nodes, nodeOf)) isOut[at] = 1;
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
