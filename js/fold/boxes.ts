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
      if (tree.size[g] > 1) shows[g] = 1;
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

/** The innermost group around a group's content that has a box: one around a single node has none. */
function drawnAround(group: number, { size, parent }: GroupTree): number {
  let g = group;
  while (g > 0 && size[g] === 1) g = parent[g];
  return g;
}
