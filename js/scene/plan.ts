import type { GraphModel } from "../wire";

/** What is to be drawn, before any place is known: nodes and edges of the graph, or boxes that stand for several. */
export interface Plan {
  nodes: PlanNode[];
  edges: PlanEdge[];
  /** Open groups, each after the one around it. */
  frames: PlanFrame[];
  /** Per graph node, its place in `nodes`; -1 if it is folded into an edge. Null when they are the same. */
  nodeOf: Int32Array | null;
  /** Per graph edge, its place in `edges`; -1 if it is hidden. Null when they are the same. */
  edgeOf: Int32Array | null;
  /** What is opened of strips: pictures of their own, below this one. */
  lenses?: readonly Lens[];
}

export interface PlanNode {
  /** The node of the graph; the first of them for a box. */
  id: number;
  /** Null for a node of the graph. */
  group: ClosedGroup | null;
  /** Nodes of the graph that are drawn with it: an activation with the sum that it follows. */
  also?: readonly number[];
  /** Place in `frames` of the one it lies in; -1 for none. */
  frame: number;
  /** What is drawn in its place: repeated blocks, side by side. */
  strip?: Strip;
  /** In a lens: the node represents something outside. */
  gate?: Gate;
  /** Path of the module of which it is the only operation, where no frame says so. */
  module?: string;
  /** Constants that its sign says, which are not drawn themselves. */
  said?: readonly number[];
}

/** A closed group. */
export interface ClosedGroup {
  /** Its path, "encoder/layers/0"; of a strip as a whole, those of its blocks. */
  paths: readonly string[];
  /** The graph nodes in it. */
  members: readonly number[];
  /** The parameters that it uses; ids of leaves. */
  leaves: readonly number[];
  /** Whether it is a block of a strip that is open in a lens as well. */
  isOpen?: boolean;
}

/** Blocks that are alike and follow each other. */
export interface Strip {
  /** Path of the open group that it lies in, and whether it is all that lies there. */
  path: string;
  isAlone: boolean;
  /** What they are called together, and their class, if that is known. User text. */
  title: string;
  kind: string | null;
  /** How many numbers the parameters of each hold; null where they differ. */
  each: number | null;
  /** That all of them run forward again in backward, each saving as much. */
  again: string | null;
  /** In the order of their names' numbers. */
  blocks: readonly StripBlock[];
  /** What joins neighbours: places in `blocks`. */
  links: readonly Omit<PlanEdge, "argument">[];
}

/** One of them. */
interface StripBlock {
  /** The first graph node in it. */
  id: number;
  group: ClosedGroup;
  /** What it is called in its row, "7". */
  name: string;
}

/** Something outside of a lens that what is in it is joined to. */
export interface Gate {
  /** Whether gradients come from it, rather than go to it. */
  isSource: boolean;
  title: string;
  /** The graph node whose gradient, all of it, passes; or the graph edge along which it does; null for several. */
  carries: { node: number } | { edge: number } | null;
}

/** An open block of a strip. */
export interface Lens {
  path: string;
  kind: string | null;
  /** The parameters that it uses, and how many numbers they hold. */
  leaves: readonly number[];
  numbers: number;
  /** Places of the strip in the nodes of the plan around it, and of the block in the strip. */
  strip: number;
  block: number;
  plan: Plan;
}

export interface PlanEdge {
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
