import { type Graph, type Grouped, group, makeGraph } from "./graph";

/** Group the nodes by weakly connected component, in the order of their first nodes. */
export function components(graph: Graph): Grouped {
  const { n, source, target, out } = graph;
  const component = new Int32Array(n).fill(-1);
  const queue = new Int32Array(n);
  let count = 0;
  for (let first = 0; first < n; first++) {
    if (component[first] >= 0) continue;
    component[first] = count;
    queue[0] = first;
    let tail = 1;
    const visit = (w: number) => {
      if (component[w] >= 0) return;
      component[w] = count;
      queue[tail++] = w;
    };
    for (let head = 0; head < tail; head++) {
      const v = queue[head];
      for (let i = out.start[v]; i < out.start[v + 1]; i++) visit(target[out.item[i]]);
      for (let i = graph.in.start[v]; i < graph.in.start[v + 1]; i++)
        visit(source[graph.in.item[i]]);
    }
    count++;
  }
  return group(count, component);
}

export interface Part {
  nodes: Int32Array;
  edges: Int32Array;
  graph: Graph;
}

const NO_EDGES = new Int32Array(0);
const SINGLE = makeGraph(1, NO_EDGES, NO_EDGES);

/** The components of a graph, each renumbered from 0 in the input's order. */
export function split(whole: Graph): Part[] {
  const { start, item } = components(whole);
  const count = start.length - 1;
  const local = new Int32Array(whole.n);
  const component = new Int32Array(whole.n);
  for (let c = 0; c < count; c++) {
    for (let i = start[c]; i < start[c + 1]; i++) {
      local[item[i]] = i - start[c];
      component[item[i]] = c;
    }
  }
  const edgesOf = group(
    count,
    whole.source.map((v) => component[v]),
  );
  return Array.from({ length: count }, (_, c) => {
    const nodes = item.subarray(start[c], start[c + 1]);
    if (nodes.length === 1) return { nodes, edges: NO_EDGES, graph: SINGLE };
    const edges = edgesOf.item.subarray(edgesOf.start[c], edgesOf.start[c + 1]);
    const source = edges.map((e) => local[whole.source[e]]);
    const target = edges.map((e) => local[whole.target[e]]);
    return { nodes, edges, graph: makeGraph(nodes.length, source, target) };
  });
}

/**
 * Pack boxes in rows from left to right, tops aligned, in the given order. A new row starts only when one row would be
 * far wider than tall. Returns the top left corners and the extent, px.
 */
export function pack(width: Float64Array, height: Float64Array, gap: number) {
  const k = width.length;
  const left = new Float64Array(k);
  const top = new Float64Array(k);
  let area = 0;
  let widest = 0;
  for (let i = 0; i < k; i++) {
    area += (width[i] + gap) * (height[i] + gap);
    widest = Math.max(widest, width[i]);
  }
  const limit = Math.max(widest, 1.5 * Math.sqrt(area), 640);
  let x = 0;
  let y = 0;
  let shelf = 0;
  let right = 0;
  for (let i = 0; i < k; i++) {
    if (x > 0 && x + width[i] > limit) {
      y += shelf + gap;
      x = 0;
      shelf = 0;
    }
    left[i] = x;
    top[i] = y;
    x += width[i] + gap;
    right = Math.max(right, x - gap);
    shelf = Math.max(shelf, height[i]);
  }
  return { left, top, width: right, height: k ? y + shelf : 0 };
}
