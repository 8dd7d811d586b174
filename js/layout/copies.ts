/** The drawn node at the end of each edge, and the input node of each drawn node. */
interface Copies {
  edgeTarget: Int32Array;
  owner: Int32Array;
  /** Per drawn node, 1 for a shared leaf that is drawn for a single use. */
  ofOneUse: Uint8Array;
}

/**
 * Give every use of a shared leaf its own copy, so that one weight used 200 times is not 200 long lines. The leaf
 * serves its first use; copies for the others are numbered from n in edge order. Nodes with outgoing edges are not
 * copied: that would copy everything below them.
 */
export function copyShared(
  n: number,
  source: ArrayLike<number>,
  target: ArrayLike<number>,
  shared?: ArrayLike<number>,
): Copies {
  const edgeTarget = Int32Array.from(target);
  const owner: number[] = [];
  const used = new Uint8Array(n);
  if (shared) {
    const inner = new Uint8Array(n);
    for (let e = 0; e < source.length; e++) inner[source[e]] = 1;
    for (let e = 0; e < edgeTarget.length; e++) {
      const v = edgeTarget[e];
      if (!shared[v] || inner[v]) continue;
      if (used[v]) edgeTarget[e] = n + owner.push(v) - 1;
      used[v] = 1;
    }
  }
  const all = new Int32Array(n + owner.length);
  for (let v = 0; v < n; v++) all[v] = v;
  all.set(owner, n);
  const ofOneUse = new Uint8Array(all.length);
  ofOneUse.set(used);
  ofOneUse.fill(1, n);
  return { edgeTarget, owner: all, ofOneUse };
}
