import type { GroupTree } from "../fold/tree";

/** The number of module colours; their classes are "is-k0" to "is-k7". */
export const KINDS = 8;

/** Colour modules by the first level of the tree that has several. Colours repeat when there are more modules. */
export function moduleColours(tree: GroupTree): {
  /** The class of a graph node. */
  nameOf(node: number): string;
  entries: { name: string; text: string }[];
} {
  const level = firstLevelWithSeveral(tree);
  const modules = tree.path.map((_, g) => g).filter((g) => g > 0 && tree.depth[g] === level);
  const number = new Map(modules.map((g, i) => [g, i]));
  return {
    nameOf(node) {
      let g = tree.groupOf[node];
      while (tree.depth[g] > level) g = tree.parent[g];
      const known = number.get(g);
      return known === undefined ? "is-c-none" : `is-k${known % KINDS}`;
    },
    entries: modules.slice(0, KINDS).map((g, i) => ({
      name: `is-k${i}`,
      text:
        i === KINDS - 1 && modules.length > KINDS
          ? `${tree.path[g].replaceAll("/", ".")} and, in turn, ${modules.length - KINDS} more`
          : tree.path[g].replaceAll("/", "."),
    })),
  };
}

function firstLevelWithSeveral({ depth }: GroupTree): number {
  const sizes: number[] = [];
  for (const d of depth) sizes[d] = (sizes[d] ?? 0) + 1;
  const found = sizes.findIndex((size, d) => d > 0 && size > 1);
  return found < 0 ? 1 : found;
}
