import { joinLayers, joinSums } from "./layers";
import type { GroupedEdges, GroupTree } from "./tree";

export interface ReduceInput extends GroupedEdges {
  /** Paths of open groups. A group's content is visible if it and all groups around it are open. */
  open: ReadonlySet<string>;
  /** Folds nodes that only pass a tensor on into the edges that they sit on. */
  plumbing?: {
    /** Per node, 1 if it may fold; it does if it has exactly one edge in and one out. */
    flag: ArrayLike<number>;
    /** Nodes to show: those of opened edges. */
    keep?: ReadonlySet<number>;
    /** Roles of nodes and operation counts of groups, with which a layer absorbs its followers. */
    layers?: {
      role: ArrayLike<number>;
      operations: ArrayLike<number>;
      /** Groups that absorb nothing. */
      apart?: ReadonlySet<number>;
    };
  };
}

/** A box in the drawing: a node, or a closed group. */
interface VisibleNode {
  /** Its first graph node. */
  node: number;
  /** The closed group; -1 for a node. */
  group: number;
  /** Its open group; 0 for the whole graph. */
  container: number;
  /** Number of graph nodes in it. */
  size: number;
  /** Nodes that are drawn with it. */
  also?: number[];
}

/** Its ends are indices in `Visible.nodes`. */
interface VisibleEdge extends Line {
  /** The number of merged lines. Lines merge at closed boxes, never between two plain nodes. */
  count: number;
}

export interface Visible {
  /** In the order of their first graph nodes. */
  nodes: VisibleNode[];
  /** In the order of their first edges. */
  edges: VisibleEdge[];
  /** Per graph node, its visible node; -1 if it is folded into an edge. */
  nodeOf: Int32Array;
  /** Per graph edge, its visible edge; -1 if both ends are in the same closed box. */
  edgeOf: Int32Array;
}

/** The visible part of a graph: closed groups are nodes, and edges that meet at one merge. Linear in its size. */
export function reduce(input: ReduceInput): Visible {
  const { source, tree, plumbing } = input;
  const closed = closedBoxes(tree, input.open);
  const box = tree.groupOf.map((g) => closed[g]);
  let sumOf: Int32Array | null = null;
  if (plumbing?.layers) {
    const { role, operations, apart } = plumbing.layers;
    const isLayer = (g: number) => operations[g] === 1 && !apart?.has(g);
    joinLayers(input, role, isLayer, box, plumbing.keep);
    sumOf = joinSums(input, role, operations, box, plumbing.keep);
  }
  const mayFold = (v: number) =>
    plumbing?.flag[v] === 1 && box[v] < 0 && !plumbing.keep?.has(v) && !(sumOf && sumOf[v] >= 0);
  const lines = foldPlumbing(box.length, input, mayFold);
  const isFolded = new Uint8Array(box.length);
  for (const line of lines) for (const v of line.folded) isFolded[v] = 1;

  const nodes: VisibleNode[] = [];
  const nodeOf = new Int32Array(box.length).fill(-1);
  const boxAt = new Int32Array(tree.path.length).fill(-1);
  for (let v = 0; v < box.length; v++) {
    if (isFolded[v] || (sumOf && sumOf[v] >= 0)) continue;
    const g = box[v];
    if (g < 0) {
      const container = tree.groupOf[v];
      nodeOf[v] = nodes.push({ node: v, group: -1, container, size: 1 }) - 1;
      continue;
    }
    if (boxAt[g] < 0) {
      const [container, size] = [tree.parent[g], tree.size[g]];
      boxAt[g] = nodes.push({ node: v, group: g, container, size }) - 1;
    }
    nodeOf[v] = boxAt[g];
  }
  sumOf?.forEach((sum, v) => {
    if (sum < 0) return;
    nodeOf[v] = nodeOf[sum];
    const node = nodes[nodeOf[v]];
    node.also = [...(node.also ?? []), v];
    node.size++;
  });
  return { nodes, nodeOf, ...mergeLines(source.length, lines, nodes, nodeOf) };
}

/** Per group, the outermost closed group around it or itself; -1 if its content is visible. */
export function closedBoxes(tree: GroupTree, open: ReadonlySet<string>): Int32Array {
  const closed = new Int32Array(tree.path.length).fill(-1);
  for (let g = 1; g < closed.length; g++) {
    const around = closed[tree.parent[g]];
    closed[g] = around >= 0 ? around : open.has(tree.path[g]) ? -1 : g;
  }
  return closed;
}

function mergeLines(count: number, lines: Line[], nodes: VisibleNode[], nodeOf: Int32Array) {
  const edges: VisibleEdge[] = [];
  const edgeOf = new Int32Array(count).fill(-1);
  const merged = new Map<number, number>();
  for (const line of lines) {
    const [a, b] = [nodeOf[line.source], nodeOf[line.target]];
    if (a === b && (nodes[a].group >= 0 || nodes[a].also)) {
      // Plumbing from a box back into it belongs to the box.
      for (const v of line.folded) nodeOf[v] = a;
      continue;
    }
    const isPlain = nodes[a].group < 0 && nodes[b].group < 0;
    const key = a * nodes.length + b;
    let at = isPlain ? undefined : merged.get(key);
    if (at === undefined) {
      at = edges.push({ source: a, target: b, count: 0, edges: [], folded: [] }) - 1;
      if (!isPlain) merged.set(key, at);
    }
    const edge = edges[at];
    edge.count++;
    for (const e of line.edges) {
      edge.edges.push(e);
      edgeOf[e] = at;
    }
    for (const v of line.folded) edge.folded.push(v);
  }
  return { edges, edgeOf };
}

/** A drawn edge: one edge of the graph, or several in a row with folded plumbing between them. */
interface Line {
  source: number;
  target: number;
  /** Indices of its edges, from the source on. */
  edges: number[];
  /** Its folded nodes, from the source on. */
  folded: number[];
}

/** Fold nodes with one edge in and one out that only pass a tensor on. Lines are in the order of their first edges. */
function foldPlumbing(
  n: number,
  { source, target }: GroupedEdges,
  mayFold: (node: number) => boolean,
): Line[] {
  const above = new Int32Array(n);
  const below = new Int32Array(n);
  const out = new Int32Array(n).fill(-1);
  for (let e = 0; e < source.length; e++) {
    below[source[e]]++;
    above[target[e]]++;
    out[source[e]] = e;
  }
  const isFolded = Uint8Array.from({ length: n }, (_, v) =>
    above[v] === 1 && below[v] === 1 && mayFold(v) ? 1 : 0,
  );
  const lines: Line[] = [];
  for (let e = 0; e < source.length; e++) {
    if (isFolded[source[e]]) continue;
    const line: Line = { source: source[e], target: target[e], edges: [e], folded: [] };
    while (isFolded[line.target]) {
      line.folded.push(line.target);
      const next = out[line.target];
      line.edges.push(next);
      line.target = target[next];
    }
    lines.push(line);
  }
  return lines;
}
