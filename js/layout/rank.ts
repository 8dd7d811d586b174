import { type Graph, type Grouped, group, inDegree, outDegree } from "./graph";

/** The nodes, sources before targets. Throws on a cycle. */
export function topological(graph: Graph): Int32Array {
  const { n, out, target } = graph;
  const waiting = new Int32Array(n);
  const order = new Int32Array(n);
  let tail = 0;
  for (let v = 0; v < n; v++) {
    waiting[v] = inDegree(graph, v);
    if (waiting[v] === 0) order[tail++] = v;
  }
  for (let head = 0; head < tail; head++) {
    const v = order[head];
    for (let i = out.start[v]; i < out.start[v + 1]; i++) {
      const w = target[out.item[i]];
      if (--waiting[w] === 0) order[tail++] = w;
    }
  }
  if (tail < n) {
    const stuck = waiting.findIndex((k) => k > 0);
    throw new Error(
      `The graph has a cycle (through or above node ${stuck}), so its edges cannot all run down.`,
    );
  }
  return order.subarray(0, tail);
}

/**
 * A rank per node, from 0 at the top; every edge runs at least one rank down, most exactly one. Hanging trees are
 * peeled off first, since their edges always fit in one rank. The rest is ranked by longest paths, then each node with
 * room moves to the side with more edges. Paths from the top suit many leaves, from the bottom many roots: the smaller
 * total edge span wins.
 */
export function rank(graph: Graph, order: Int32Array): Int32Array {
  const { peeled, by } = peel(graph);
  const { n, source, target } = graph;
  const core = order.filter((v) => by[v] === -1);
  const fromTop = rankCore(graph, core, by, true);
  const fromBottom = rankCore(graph, core, by, false);
  const result = fromBottom.span < fromTop.span ? fromBottom.result : fromTop.result;
  for (let i = peeled.length - 1; i >= 0; i--) {
    const v = peeled[i];
    const e = by[v];
    result[v] = source[e] === v ? result[target[e]] - 1 : result[source[e]] + 1;
  }
  let top = Infinity;
  for (const r of result) if (r < top) top = r;
  for (let v = 0; v < n; v++) result[v] -= top;
  return result;
}

function rankCore(graph: Graph, core: Int32Array, by: Int32Array, fromTop: boolean) {
  const { source, target } = graph;
  const result = longestPaths(graph, core, by, fromTop);
  // Ties go down in one sweep and up in the next, so that a whole chain can follow.
  for (let round = 0, gain = 1; round < 10 && gain > 0; round++) {
    gain = balance(graph, core, by, result, true) + balance(graph, core, by, result, false);
  }
  let span = 0;
  for (let e = 0; e < source.length; e++) {
    if (by[source[e]] === -1 && by[target[e]] === -1) span += result[target[e]] - result[source[e]];
  }
  return { result, span };
}

/** Remove nodes with one edge until none is left. `by[v]` is the edge of v's removal, -1 in the core. */
export function peel(graph: Graph): { peeled: Int32Array; by: Int32Array } {
  const { n, source, target } = graph;
  const degree = new Int32Array(n);
  const by = new Int32Array(n).fill(-1);
  const peeled = new Int32Array(n);
  let tail = 0;
  for (let v = 0; v < n; v++) {
    degree[v] = inDegree(graph, v) + outDegree(graph, v);
    if (degree[v] === 1) peeled[tail++] = v;
  }
  let kept = 0;
  for (let head = 0; head < tail; head++) {
    const v = peeled[head];
    // The last node of a tree has no edges left and stays as the core.
    if (degree[v] === 0) continue;
    const e = hangsBy(graph, by, v);
    const w = source[e] === v ? target[e] : source[e];
    by[v] = e;
    peeled[kept++] = v;
    degree[v] = 0;
    if (--degree[w] === 1) peeled[tail++] = w;
  }
  return { peeled: peeled.slice(0, kept), by };
}

function hangsBy(graph: Graph, by: Int32Array, v: number): number {
  const { source, target, out } = graph;
  for (let i = out.start[v]; i < out.start[v + 1]; i++) {
    if (by[target[out.item[i]]] === -1) return out.item[i];
  }
  for (let i = graph.in.start[v]; i < graph.in.start[v + 1]; i++) {
    if (by[source[graph.in.item[i]]] === -1) return graph.in.item[i];
  }
  return -1;
}

/** Rank by the longest path from the top, or minus the longest path to the bottom. */
function longestPaths(
  graph: Graph,
  core: Int32Array,
  by: Int32Array,
  fromTop: boolean,
): Int32Array {
  const result = new Int32Array(graph.n);
  const { start, item } = fromTop ? graph.in : graph.out;
  const end = fromTop ? graph.source : graph.target;
  const step = fromTop ? 1 : -1;
  for (let k = 0; k < core.length; k++) {
    const v = core[fromTop ? k : core.length - 1 - k];
    let r = 0;
    for (let i = start[v]; i < start[v + 1]; i++) {
      const u = end[item[i]];
      if (by[u] === -1 && step * (result[u] + step - r) > 0) r = result[u] + step;
    }
    result[v] = r;
  }
  return result;
}

/** Move each node to the end of its room where it has more edges; returns the saved span. */
function balance(
  graph: Graph,
  core: Int32Array,
  by: Int32Array,
  result: Int32Array,
  fromBottom: boolean,
): number {
  const { source, target, out } = graph;
  let saved = 0;
  for (let k = 0; k < core.length; k++) {
    const v = core[fromBottom ? core.length - 1 - k : k];
    let low = -Infinity;
    let high = Infinity;
    let pull = 0;
    for (let i = graph.in.start[v]; i < graph.in.start[v + 1]; i++) {
      const u = source[graph.in.item[i]];
      if (by[u] !== -1) continue;
      low = Math.max(low, result[u] + 1);
      pull--;
    }
    for (let i = out.start[v]; i < out.start[v + 1]; i++) {
      const w = target[out.item[i]];
      if (by[w] !== -1) continue;
      high = Math.min(high, result[w] - 1);
      pull++;
    }
    // A node without edges (the last of a tree) stays.
    if (low === -Infinity && high === Infinity) continue;
    const to = pull > 0 || (pull === 0 && fromBottom) ? high : low;
    saved += pull * (to - result[v]);
    result[v] = to;
  }
  return saved;
}

/**
 * The graph with long edges cut by dummies, one per rank, so that segments join neighbouring ranks. Nodes 0..n-1 are
 * the graph's; dummies follow, chain by chain.
 */
export interface Layered {
  n: number;
  /** Nodes and dummies together. */
  size: number;
  rank: Int32Array;
  /** Nodes and dummies by rank. */
  ranks: Grouped;
  /** Neighbours one rank down and one rank up, an entry per segment. */
  down: Grouped;
  up: Grouped;
  /** Per edge, its first dummy (others follow); -1 for none, -2 for a detour. */
  first: Int32Array;
}

/** An edge without dummies: it runs around the picture and is not ordered. */
export const DETOUR = -2;

/**
 * Cut long edges. In a small graph each edge has its own chain of dummies. In a large graph the edges of a source share
 * a chain, so that dense skips do not grow quadratically. Chains beyond the budget are left out, longest first.
 * `isShared` forces sharing.
 */
export function addDummies(
  graph: Graph,
  rank: Int32Array,
  budget = 6 * graph.n + 8000,
  isShared = false,
): Layered {
  const { n, source, target } = graph;
  const m = source.length;
  const span = new Int32Array(m);
  let total = 0;
  for (let e = 0; e < m; e++) {
    span[e] = rank[target[e]] - rank[source[e]] - 1;
    total += span[e];
  }
  const isCheap = !isShared && total <= 2 * n + 200;
  const chain = isCheap ? Int32Array.from(span.keys()) : Int32Array.from(source);
  const length = new Int32Array(Math.max(n, m));
  for (let e = 0; e < m; e++) length[chain[e]] = Math.max(length[chain[e]], span[e]);
  keepWithin(length, budget);

  const first = new Int32Array(m).fill(-1);
  const firstOf = new Int32Array(length.length).fill(-1);
  let size = n;
  let segments = 0;
  for (let e = 0; e < m; e++) {
    const c = chain[e];
    if (span[e] > length[c]) {
      first[e] = DETOUR;
      continue;
    }
    segments++;
    if (span[e] === 0) continue;
    if (firstOf[c] === -1) {
      firstOf[c] = size;
      size += length[c];
      segments += length[c];
    }
    first[e] = firstOf[c];
  }

  const allRanks = new Int32Array(size);
  allRanks.set(rank);
  const from = new Int32Array(segments);
  const to = new Int32Array(segments);
  let k = 0;
  let made = n;
  for (let e = 0; e < m; e++) {
    if (first[e] === DETOUR) continue;
    if (first[e] === made) {
      for (let i = 0; i < length[chain[e]]; i++, made++, k++) {
        allRanks[made] = rank[source[e]] + 1 + i;
        from[k] = i === 0 ? source[e] : made - 1;
        to[k] = made;
      }
    }
    from[k] = span[e] === 0 ? source[e] : first[e] + span[e] - 1;
    to[k++] = target[e];
  }
  let depth = 0;
  for (const r of allRanks) if (r >= depth) depth = r + 1;
  return {
    n,
    size,
    rank: allRanks,
    ranks: group(depth, allRanks),
    down: neighbours(size, from, to),
    up: neighbours(size, to, from),
    first,
  };
}

/** Remove the longest chains until the rest is within the budget. */
function keepWithin(length: Int32Array, budget: number): void {
  let total = 0;
  for (const k of length) total += k;
  if (total <= budget) return;
  const sorted = length.slice().sort();
  let limit = sorted.length;
  for (let rest = total; rest > budget; limit--) rest -= sorted[limit - 1];
  for (let c = 0; c < length.length; c++) {
    if (length[c] > sorted[limit] || (length[c] === sorted[limit] && total > budget)) {
      total -= length[c];
      length[c] = 0;
    }
  }
}

function neighbours(size: number, key: Int32Array, other: Int32Array): Grouped {
  const { start, item } = group(size, key);
  for (let i = 0; i < item.length; i++) item[i] = other[item[i]];
  return { start, item };
}
