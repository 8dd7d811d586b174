import { type Graph, type Grouped, group } from "./graph";

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
