import { isBody } from "../scene/module_class";
import type { GroupTree } from "./tree";

/** The open groups that show something, but for one node alone, as boxes for a nested layout. */
interface Boxes {
  /** Per box, its group. */
  group: Int32Array;
  /** Per box, the box around it; -1 for none. */
  boxParent: Int32Array;
  /** Per visible node, the box that it lies in; -1 for none. */
  box: Int32Array;
}

/**
 * The boxes to draw around nodes, each after the one around it; `containers` are the open groups that they lie in, -1 for
 * none, and `top` is one around all of them, which has no box.
 */
export function boxesAround(containers: readonly number[], tree: GroupTree, top = 0): Boxes {
  const shows = new Uint8Array(tree.path.length);
  for (const container of containers) {
    for (let g = container; g > 0 && g !== top && !shows[g]; g = tree.parent[g])
      if (hasFrame(g, tree)) shows[g] = 1;
  }
  const boxOf = new Int32Array(tree.path.length).fill(-1);
  const group = Int32Array.from(shows.keys()).filter((g) => shows[g] === 1);
  group.forEach((g, b) => {
    boxOf[g] = b;
  });
  return {
    group,
    boxParent: group.map((g) => boxOf[tree.parent[g]]),
    box: Int32Array.from(containers, (container) =>
      container < 0 ? -1 : boxOf[drawnAround(container, tree)],
    ),
  };
}

/** One around a single node has none, unless it tells when that runs. */
function hasFrame(group: number, { size, path }: GroupTree): boolean {
  return size[group] > 1 || isBody(path[group]);
}

/** The innermost group around a group's content that has a box. */
function drawnAround(group: number, tree: GroupTree): number {
  let g = group;
  while (g > 0 && !hasFrame(g, tree)) g = tree.parent[g];
  return g;
}
