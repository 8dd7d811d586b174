import type { Layered } from "./dummies";

/**
 * An initial order: depth-first from the top, each node appended to its rank when reached. Trees have no crossings, and
 * the steps of an unrolled loop look alike, which sweeps alone do not achieve.
 */
export function depthFirst(layered: Layered): Int32Array {
  const { size, ranks, down } = layered;
  const order = new Int32Array(size);
  const next = ranks.start.slice(0, -1);
  const seen = new Uint8Array(size);
  const stack = new Int32Array(size);
  const child = down.start.slice(0, -1);
  for (const root of ranks.item) {
    if (seen[root]) continue;
    seen[root] = 1;
    order[next[layered.rank[root]]++] = root;
    stack[0] = root;
    let top = 0;
    while (top >= 0) {
      const v = stack[top];
      if (child[v] === down.start[v + 1]) {
        top--;
        continue;
      }
      const w = down.item[child[v]++];
      if (seen[w]) continue;
      seen[w] = 1;
      order[next[layered.rank[w]]++] = w;
      stack[++top] = w;
    }
  }
  return order;
}

/** Breadth-first from the bottom: each rank is in the order in which the rank below reaches it. */
export function breadthFirst(layered: Layered): Int32Array {
  const { size, ranks, up } = layered;
  const order = new Int32Array(size);
  const seen = new Uint8Array(size);
  for (let r = ranks.start.length - 2; r >= 0; r--) {
    let at = ranks.start[r];
    if (r + 2 < ranks.start.length) {
      for (let i = ranks.start[r + 1]; i < ranks.start[r + 2]; i++) {
        const v = order[i];
        for (let j = up.start[v]; j < up.start[v + 1]; j++) {
          const u = up.item[j];
          if (!seen[u]) order[at++] = u;
          seen[u] = 1;
        }
      }
    }
    for (let i = ranks.start[r]; i < ranks.start[r + 1]; i++) {
      if (!seen[ranks.item[i]]) order[at++] = ranks.item[i];
    }
  }
  return order;
}
