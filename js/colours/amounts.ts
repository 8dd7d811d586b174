import type { GroupTree } from "../fold/tree";

/** Smaller shares of the largest amount have one colour: a number that one scalar needs would take half of the scale. */
const SMALLEST_SHARE = 1e-4;

/**
 * The amounts that boxes and nodes can have, without very small ones: the same whatever is open, so that opening a box
 * does not recolour the others. A module around everything is left out, because it is seldom closed.
 */
export function amountsIn(tree: GroupTree, own: ReadonlyMap<number, number>): number[] {
  const sums = new Float64Array(tree.path.length);
  for (const [id, amount] of own) sums[tree.groupOf[id] ?? 0] += amount;
  for (let g = sums.length - 1; g > 0; g--) sums[tree.parent[g]] += sums[g];
  const { start } = tree.children;
  const isAround = (g: number) => start[g + 1] > start[g] && sums[g] >= sums[0];
  const all = [...own.values(), ...sums.filter((_, g) => g > 0 && !isAround(g))];
  const most = all.reduce((most, amount) => Math.max(most, amount), 0);
  return all.filter((amount) => amount >= SMALLEST_SHARE * most);
}
