import { type Graph, type Grouped, group, makeGraph } from "../graph";

/** Nodes in nested boxes. Items are the nodes 0..n-1, then the boxes; the last box is the whole picture. */
export interface Nesting {
  n: number;
  /** Per item, its box, as an item; -1 for the whole picture. */
  parent: Int32Array;
  /** Per item, the number of boxes around it. */
  depth: Int32Array;
  /** Items by box, in the order of their first nodes. */
  content: Grouped;
}

/** `box` is per node, `boxParent` per box: the box around it, -1 for none. Throws if a box comes before its parent. */
export function nest(box: ArrayLike<number>, boxParent: ArrayLike<number>): Nesting {
  const n = box.length;
  const root = n + boxParent.length;
  const parent = new Int32Array(root + 1).fill(-1);
  for (let v = 0; v < n; v++) {
    if (!(box[v] >= -1 && box[v] < boxParent.length)) {
      throw new Error(
        `Node ${v} is in box ${box[v]}, which is not one of the ${boxParent.length} boxes; use -1 for none.`,
      );
    }
    parent[v] = box[v] < 0 ? root : n + box[v];
  }
  for (let b = 0; b < boxParent.length; b++) {
    if (!(boxParent[b] >= -1 && boxParent[b] < b)) {
      throw new Error(
        `Box ${b} is in box ${boxParent[b]}, but a box must come after the one around it; use -1 for none.`,
      );
    }
    parent[n + b] = boxParent[b] < 0 ? root : n + boxParent[b];
  }
  const depth = new Int32Array(root + 1);
  for (let i = n; i < root; i++) depth[i] = depth[parent[i]] + 1;
  for (let v = 0; v < n; v++) depth[v] = depth[parent[v]] + 1;
  const first = Int32Array.from(parent.keys());
  for (let i = n; i < root; i++) first[i] = root;
  for (let v = 0; v < n; v++) {
    for (let i = parent[v]; i < root && first[i] > v; i = parent[i]) first[i] = v;
  }
  const byFirst = group(root + 1, first).item;
  const content = group(
    root + 1,
    byFirst.map((i) => parent[i]),
  );
  for (let i = 0; i < content.item.length; i++) content.item[i] = byFirst[content.item[i]];
  return { n, parent, depth, content };
}

/**
 * Each edge's path of lines, each within one box, which meet at ports on the borders. Edges between the same items
 * across a border share a port, so that opening a box adds no ports to the boxes around it.
 */
export interface Passages {
  /** Per port, its box (an item), and whether it is on the top border (1) or the bottom (0). */
  portBox: number[];
  portIsTop: number[];
  /** Per line, its box, an item. */
  lineBox: number[];
  /** Per line, the item or port (counted from the number of items) at its upper and lower end. */
  from: number[];
  to: number[];
  /** Per line, the port on its end's own border; -1 if the end is not a box. */
  fromPort: number[];
  toPort: number[];
  /** Per edge, its lines from the top down. */
  paths: number[][];
  /** Per edge, 1 if it runs up because boxes form a cycle. */
  backward: Uint8Array;
}

/** Route every edge through the boxes. Self-loops have empty paths. */
export function passages(
  nesting: Nesting,
  source: ArrayLike<number>,
  target: ArrayLike<number>,
): Passages {
  const { parent, depth, content } = nesting;
  const edges = Int32Array.from(source as number[], (_, e) => e).filter(
    (e) => source[e] !== target[e],
  );
  // Each edge joins two items of the innermost box around both ends.
  const a = new Int32Array(edges.length);
  const b = new Int32Array(edges.length);
  edges.forEach((e, k) => {
    let [s, t] = [source[e], target[e]];
    while (parent[s] !== parent[t]) {
      if (depth[s] >= depth[t]) s = parent[s];
      else t = parent[t];
    }
    a[k] = s;
    b[k] = t;
  });
  const isBack = backEdges(makeGraph(parent.length, a, b), content.item);
  const router = new Router(parent, source.length);
  edges.forEach((e, k) => {
    if (isBack[k])
      router.route(e, { node: target[e], item: b[k] }, { node: source[e], item: a[k] });
    else router.route(e, { node: source[e], item: a[k] }, { node: target[e], item: b[k] });
    router.result.backward[e] = isBack[k];
  });
  return router.result;
}

/** An end of an edge: its node, and the item around it in the innermost box around both ends. */
interface End {
  node: number;
  item: number;
}

class Router {
  readonly result: Passages;
  private readonly items: number;
  private readonly portAt = new Map<number, number>();
  private readonly lineAt = new Map<number, number>();

  constructor(
    private readonly parent: Int32Array,
    edges: number,
  ) {
    this.items = parent.length;
    this.result = {
      portBox: [],
      portIsTop: [],
      lineBox: [],
      from: [],
      to: [],
      fromPort: [],
      toPort: [],
      paths: Array.from({ length: edges }, () => []),
      backward: new Uint8Array(edges),
    };
  }

  /** Route an edge from its upper to its lower end. */
  route(e: number, upper: End, lower: End): void {
    const path = this.result.paths[e];
    const outOf = this.climb(upper.node, upper.item, lower.item, 0, path);
    const down: number[] = [];
    const into = this.climb(lower.node, lower.item, upper.item, 1, down);
    path.push(this.line(this.parent[upper.item], upper.item, outOf, lower.item, into));
    for (let i = down.length - 1; i >= 0; i--) path.push(down[i]);
  }

  /** Lines from a node out to the border of `outermost`, through a port on each box between; returns the last port. */
  private climb(node: number, outermost: number, beyond: number, isTop: number, path: number[]) {
    let inner = -1;
    for (let i = node; i !== outermost; i = this.parent[i]) {
      const p = this.port(i, beyond, isTop);
      path.push(
        isTop
          ? this.line(this.parent[i], this.items + p, -1, i, inner)
          : this.line(this.parent[i], i, inner, this.items + p, -1),
      );
      inner = p;
    }
    return inner;
  }

  private port(item: number, beyond: number, isTop: number): number {
    const key = (item * this.items + beyond) * 2 + isTop;
    let found = this.portAt.get(key);
    if (found === undefined) {
      found = this.result.portBox.push(this.parent[item]) - 1;
      this.result.portIsTop.push(isTop);
      this.portAt.set(key, found);
    }
    return found;
  }

  private line(box: number, from: number, fromPort: number, to: number, toPort: number): number {
    // Two edges between two plain nodes stay separate; at a box the ports separate lines.
    const isPlain = fromPort < 0 && toPort < 0 && from < this.items && to < this.items;
    const start = fromPort < 0 ? from : this.items + fromPort;
    const end = toPort < 0 ? to : this.items + toPort;
    const key = start * 2 ** 26 + end;
    let found = isPlain ? undefined : this.lineAt.get(key);
    if (found === undefined) {
      found = this.result.lineBox.push(box) - 1;
      this.result.from.push(from);
      this.result.to.push(to);
      this.result.fromPort.push(fromPort);
      this.result.toPort.push(toPort);
      if (!isPlain) this.lineAt.set(key, found);
    }
    return found;
  }
}

/**
 * Edges to turn around so that the others make no cycle: those that lead back into the path that a depth-first walk is
 * on. Boxes often form cycles where the graph has none, since a module can be called again after another one.
 *
 * Args:
 *   graph: any directed graph.
 *   order: its nodes in the order in which walks start from them; those without edges in come before all others.
 *
 * Returns per edge 1 if it is turned around.
 */
export function backEdges(graph: Graph, order: Int32Array): Uint8Array {
  const { n, target, out } = graph;
  const result = new Uint8Array(target.length);
  const onPath = new Uint8Array(n);
  const seen = new Uint8Array(n);
  const next = out.start.slice(0, n);
  const path: number[] = [];
  const enter = (v: number) => {
    seen[v] = onPath[v] = 1;
    path.push(v);
  };
  const walk = (root: number) => {
    if (seen[root]) return;
    enter(root);
    while (path.length > 0) {
      const v = path[path.length - 1];
      if (next[v] === out.start[v + 1]) {
        onPath[v] = 0;
        path.pop();
        continue;
      }
      const e = out.item[next[v]++];
      const w = target[e];
      if (onPath[w]) result[e] = 1;
      else if (!seen[w]) enter(w);
    }
  };
  for (const v of order) if (graph.in.start[v] === graph.in.start[v + 1]) walk(v);
  for (const v of order) walk(v);
  return result;
}
