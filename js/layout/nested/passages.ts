import { type Grouped, group, makeGraph } from "../graph";
import { backEdges } from "./cycles";

/** Nodes in boxes in boxes. Items are the nodes 0..n-1, then the boxes; the last box is the whole picture. */
export interface Nesting {
  n: number;
  /** Per item, the box it lies in, as an item; -1 for the whole picture. */
  parent: Int32Array;
  /** Per item, the number of boxes around it. */
  depth: Int32Array;
  /** Items by the box that they lie in, in the order of their first nodes. */
  content: Grouped;
}

/** `box` is per node, `boxParent` per box: the box around it, -1 for none. Throws on a box that comes before the one around it. */
export function nest(box: ArrayLike<number>, boxParent: ArrayLike<number>): Nesting {
  const n = box.length;
  const root = n + boxParent.length;
  const parent = new Int32Array(root + 1).fill(-1);
  for (let v = 0; v < n; v++) {
    if (!(box[v] >= -1 && box[v] < boxParent.length)) {
      throw new Error(
        `Node ${v} is said to lie in box ${box[v]}, which is not one of the ${boxParent.length} boxes; use -1 for none.`,
      );
    }
    parent[v] = box[v] < 0 ? root : n + box[v];
  }
  for (let b = 0; b < boxParent.length; b++) {
    if (!(boxParent[b] >= -1 && boxParent[b] < b)) {
      throw new Error(
        `Box ${b} is said to lie in box ${boxParent[b]}, but a box must come after the one around it; use -1 for none.`,
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
 * How every edge gets from its source to its target: as a path of lines, each within one box, that meet at ports on
 * the borders between. Edges share a port where the same item is joined to the same item beyond the border, so that
 * opening a box adds no ports to the boxes around it.
 */
export interface Passages {
  /** Per port, the box whose border it is on (an item), and whether it is on the top border (1) or the bottom (0). */
  portBox: number[];
  portIsTop: number[];
  /** Per line, the box that it runs in, an item. */
  lineBox: number[];
  /** Per line, the item or port (counted on from the number of items) where it starts, above, and where it ends. */
  from: number[];
  to: number[];
  /** Per line, the port on its end's own border where it starts or ends; -1 if the end is not a box. */
  fromPort: number[];
  toPort: number[];
  /** Per edge, its lines from the top of the picture down. */
  paths: number[][];
  /** Per edge, 1 if it runs up, from the top of its source to the bottom of its target, since boxes form a cycle. */
  backward: Uint8Array;
}

/** Self-loops take no part: their paths are empty. */
export function passages(
  nesting: Nesting,
  source: ArrayLike<number>,
  target: ArrayLike<number>,
): Passages {
  const { parent, depth, content } = nesting;
  const items = parent.length;
  const edges = Int32Array.from(source as number[], (_, e) => e).filter(
    (e) => source[e] !== target[e],
  );
  // Where the two ends' boxes meet, each edge joins two items of the same box.
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
  const isBack = backEdges(makeGraph(items, a, b), content.item);

  const result: Passages = {
    portBox: [],
    portIsTop: [],
    lineBox: [],
    from: [],
    to: [],
    fromPort: [],
    toPort: [],
    paths: Array.from({ length: source.length }, () => []),
    backward: new Uint8Array(source.length),
  };
  const portAt = new Map<number, number>();
  const lineAt = new Map<number, number>();
  edges.forEach((e, k) => {
    result.backward[e] = isBack[k];
    const [upper, lower] = isBack[k] ? [target[e], source[e]] : [source[e], target[e]];
    const [top, bottom] = isBack[k] ? [b[k], a[k]] : [a[k], b[k]];
    const path = result.paths[e];
    const outOf = climb(upper, top, bottom, 0, path);
    const down: number[] = [];
    const into = climb(lower, bottom, top, 1, down);
    path.push(line(parent[top], top, outOf, bottom, into));
    for (let i = down.length - 1; i >= 0; i--) path.push(down[i]);
  });
  return result;

  /** Lines from a node out to the border of `outermost`, through a port on each box between; returns the last port. */
  function climb(node: number, outermost: number, beyond: number, isTop: number, path: number[]) {
    let inner = -1;
    for (let i = node; i !== outermost; i = parent[i]) {
      const p = port(i, beyond, isTop);
      path.push(
        isTop ? line(parent[i], items + p, -1, i, inner) : line(parent[i], i, inner, items + p, -1),
      );
      inner = p;
    }
    return inner;
  }

  function port(item: number, beyond: number, isTop: number): number {
    const key = (item * items + beyond) * 2 + isTop;
    let found = portAt.get(key);
    if (found === undefined) {
      found = result.portBox.push(parent[item]) - 1;
      result.portIsTop.push(isTop);
      portAt.set(key, found);
    }
    return found;
  }

  function line(box: number, from: number, fromPort: number, to: number, toPort: number): number {
    // Two edges between two plain nodes stay two lines; where a box is involved its ports tell lines apart.
    const isPlain = fromPort < 0 && toPort < 0 && from < items && to < items;
    const start = fromPort < 0 ? from : items + fromPort;
    const end = toPort < 0 ? to : items + toPort;
    const key = start * 2 ** 26 + end;
    let found = isPlain ? undefined : lineAt.get(key);
    if (found === undefined) {
      found = result.lineBox.push(box) - 1;
      result.from.push(from);
      result.to.push(to);
      result.fromPort.push(fromPort);
      result.toPort.push(toPort);
      if (!isPlain) lineAt.set(key, found);
    }
    return found;
  }
}
