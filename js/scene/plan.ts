import type { GraphModel } from "../wire";

/** The content of a drawing before any place is known: nodes and edges, or boxes for several. */
export interface Plan {
  nodes: PlanNode[];
  edges: PlanEdge[];
  /** Open groups, parents first. */
  frames: PlanFrame[];
  /** Per graph node, its index in `nodes`; -1 if it is folded into an edge. Null if they are the same. */
  nodeOf: Int32Array | null;
  /** Per graph edge, its index in `edges`; -1 if it is hidden. Null if they are the same. */
  edgeOf: Int32Array | null;
}

export interface PlanNode {
  /** The graph node; for a box, its first. */
  id: number;
  /** Null for a graph node. */
  group: ClosedGroup | null;
  /** Graph nodes that are drawn with it: an activation with the sum before it. */
  also?: readonly number[];
  /** Index of its frame in `frames`; -1 for none. */
  frame: number;
  /** Drawn instead: repeated blocks, side by side. */
  strip?: Strip;
  /** Path of its module, if that has no box or frame: it has only this operation, or is called in several places. */
  module?: string;
  /** Constants in its sign, which are not drawn. */
  inSign?: readonly number[];
}

/** A closed group. */
export interface ClosedGroup {
  /** Its path, "encoder/layers/0"; for a whole strip, its blocks' paths. */
  paths: readonly string[];
  /** The graph nodes in it. */
  members: readonly number[];
  /** Its parameters; ids of leaves. */
  leaves: readonly number[];
}

/** Similar blocks in a row. */
export interface Strip {
  /** Path of its open group, and whether it is alone there. */
  path: string;
  isAlone: boolean;
  /** Their common name and class, if known. User text. */
  title: string;
  kind: string | null;
  /** The elements of each one's parameters; null if they differ. */
  each: number | null;
  /** The one block that has more than `each`. */
  larger: { name: string; by: number } | null;
  /** The elements of the parameters that all of them use and that are not drawn. */
  shared?: number;
  /** Set if all run forward again in backward and save the same amount. */
  again: string | null;
  /** In the order of their numbers. */
  blocks: readonly StripBlock[];
  /** Edges between neighbours: indices in `blocks`. */
  links: readonly Omit<PlanEdge, "argument">[];
}

/** A block. */
interface StripBlock {
  /** Its first graph node. */
  id: number;
  group: ClosedGroup;
  /** Its name in the row, "7". */
  name: string;
  /** Whether it runs forward again in backward, or is advised to. */
  isAgain: boolean;
}

export interface PlanEdge {
  source: number;
  target: number;
  argument: string | null;
  /** The number of merged lines. */
  count: number;
  /** Indices of its graph edges, from the source on. */
  edges: readonly number[];
  /** Its folded graph nodes, from the source on. */
  folded: readonly number[];
}

interface PlanFrame {
  path: string;
  /** Index of its parent in `frames`; -1 for none. */
  parent: number;
  /** The elements of its parameters that are not drawn. */
  counted: number;
  /** The elements of all parameters that its operations use, wherever these are drawn. */
  used: number;
}

/** One node per graph node, one line per edge. */
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
