import { type Graph, type Grouped, group } from "./graph";

/**
 * The graph with every long edge cut by dummies, one per rank that it passes, so that each segment joins
 * neighbouring ranks. Nodes 0..n-1 are the graph's own, the dummies follow, one chain after the other.
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
  /** Per edge, its first dummy (the others follow it), -1 if it has none, -2 if it is too long for any. */
  first: Int32Array;
}

/** An edge without dummies: it is drawn around the picture and takes no part in ordering. */
export const DETOUR = -2;

/**
 * Cuts the long edges. While that is cheap each edge has its own chain of dummies; in a large graph the edges of
 * one source share a chain and leave it where they need to, which keeps dense skips from growing quadratically.
 * Chains over the budget are left out, longest first. With `isShared`, edges of one source share in any case.
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

/** Sets the longest chains to 0 until the rest is within the budget. */
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
