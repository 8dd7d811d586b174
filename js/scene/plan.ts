import type { GraphModel } from "../wire";

/** What is to be drawn, before any place is known: nodes and edges of the graph, or boxes that stand for several. */
export interface Plan {
  nodes: PlanNode[];
  edges: PlanEdge[];
  /** Open groups, each after the one around it. */
  frames: PlanFrame[];
  /** Per graph node, its place in `nodes`; -1 if it is folded into an edge. Null when they are the same. */
  nodeOf: Int32Array | null;
  /** Per graph edge, its place in `edges`; -1 if it is hidden in a box. Null when they are the same. */
  edgeOf: Int32Array | null;
}

interface PlanNode {
  /** The node of the graph; the first of them for a box. */
  id: number;
  /** Null for a node of the graph. */
  group: ClosedGroup | null;
  /** Nodes of the graph that are drawn with it: an activation with the sum that it follows. */
  also?: readonly number[];
  /** Place in `frames` of the one it lies in; -1 for none. */
  frame: number;
  /** Path of the module of which it is the only operation, where no frame says so. */
  module?: string;
  /** Constants that its sign says, which are not drawn themselves. */
  said?: readonly number[];
}

/** A closed group, or a row of them that are alike, drawn as one box. */
export interface ClosedGroup {
  /** Paths of the groups, "encoder/layers/0"; several for a repeat. */
  paths: readonly string[];
  /** The graph nodes in it. */
  members: readonly number[];
}

interface PlanEdge {
  /** Places in `nodes`. */
  source: number;
  target: number;
  argument: string | null;
  /** How many lines were merged into it. */
  count: number;
  /** Places of the graph's edges that it is made of, from the source on. */
  edges: readonly number[];
  /** Graph nodes folded into it, from the source on. */
  folded: readonly number[];
}

interface PlanFrame {
  path: string;
  /** Place in `frames` of the one around it; -1 for none. */
  parent: number;
}

/** Everything as it is: one node per graph node, one line per edge. */
export function flatPlan({ nodes, edges }: GraphModel): Plan {
  const none: readonly number[] = [];
  return {
    nodes: nodes.map(({ id }) => ({ id, group: null, frame: -1 })),
    edges: edges.map(({ source, target, argument }, i) => ({
      source,
      target,
      argument,
      count: 1,
      edges: [i],
      folded: none,
    })),
    frames: [],
    nodeOf: null,
    edgeOf: null,
  };
}
