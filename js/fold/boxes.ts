import { isBody } from "../scene/module_class";
import type { GroupTree } from "./tree";

/** The open groups with visible content as boxes for a nested layout; groups of a single node have none. */
interface Boxes {
  group: Int32Array;
  /** Per box, the box around it; -1 for none. */
  boxParent: Int32Array;
  /** Per visible node, the box that it lies in; -1 for none. */
  box: Int32Array;
}

/**
 * Find the boxes around nodes, parents first. `containers` are the nodes' open groups, -1 for none; `top` is the
 * outermost group, which has no box.
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

/** A single node's group has a frame only if the frame shows when it runs. */
function hasFrame(group: number, { size, path }: GroupTree): boolean {
  return size[group] > 1 || isBody(path[group]);
}

/** The innermost group with a box around a group's content. */
function drawnAround(group: number, tree: GroupTree): number {
  let g = group;
  while (g > 0 && !hasFrame(g, tree)) g = tree.parent[g];
  return g;
}
