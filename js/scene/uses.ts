import { leastBy, listsBy } from "../maps";
import { edgesOf } from "./members";
import type { Scene } from "./scene";

/** Find the use of each copy of a leaf. The copy farthest from the outputs gets the sum: its share comes last. */
export function findUses({ nodes, edges }: Scene): void {
  for (const edge of edges) {
    const node = nodes[edge.target];
    if (node.copies > 1 && edge.quiet === undefined && (edge.merged?.count ?? 1) === 1)
      node.use = edgesOf(edge).at(-1) as number;
  }
  const leaves = listsBy(nodes, ({ id, copies }) => (copies > 1 ? id : null));
  for (const all of leaves.values()) {
    // Number inputs are at the first one.
    const last = leastBy(all.slice(1), ({ rank }) => -rank) ?? all[0];
    for (const node of all) if (node !== last) node.isCopy = true;
    last.shape = { ...last.shape, ...last.shape.withSum };
    // The other copies have room for the facts that are read from close.
    last.fine = [];
  }
}
