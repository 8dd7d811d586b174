import { type Folding, openPaths } from "./folding";
import type { GroupedGraph } from "./grouped_graph";
import { closedBoxes } from "./reduce";

/** Estimate the number of visible nodes and boxes without a layout. */
export function visibleCount({ tree, plumbing }: GroupedGraph, folding: Folding): number {
  const closed = closedBoxes(tree, openPaths(folding));
  let count = closed.reduce((boxes, box, g) => boxes + (box === g ? 1 : 0), 0);
  tree.groupOf.forEach((g, v) => {
    const isFolded = folding.hidesPlumbing && plumbing[v] === 1 && !folding.unfolded.has(v);
    if (closed[g] < 0 && !isFolded) count++;
  });
  return count;
}
