import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  closeGroup,
  deepest,
  depthOf,
  type Folding,
  firstFolding,
  isOpen,
  isSameFolding,
  keepPeek,
  LARGEST_WHOLE,
  openBlock,
  openGroup,
  openPaths,
  revealNode,
  setPlumbing,
  setRepeats,
  toDepth,
  unfoldPlumbing,
} from "./folding";
import { reduce } from "./reduce";
import { groupTree, pathTo } from "./tree";

const parts = ["", "a", "a/b", "a/b/c", "a/d", "e", "e/f", "e/f/g/h"];
const trees = fc
  .array(fc.constantFrom(...parts), { minLength: 1, maxLength: 30 })
  .map((names) => groupTree(names));

type Move = (folding: Folding, tree: ReturnType<typeof groupTree>) => Folding;
const paths = fc.constantFrom(...parts.slice(1));
const moves: fc.Arbitrary<Move> = fc.oneof(
  paths.map(
    (path): Move =>
      (f, tree) =>
        openGroup(tree, f, path),
  ),
  paths.map(
    (path): Move =>
      (f) =>
        closeGroup(f, path),
  ),
  paths.map(
    (path): Move =>
      (f, tree) =>
        openGroup(tree, f, path),
  ),
  fc.nat(5).map(
    (depth): Move =>
      (f, tree) =>
        toDepth(tree, f, depth),
  ),
  fc.nat(29).map(
    (v): Move =>
      (f, tree) =>
        revealNode(tree, f, v % tree.groupOf.length),
  ),
  fc.nat(29).map(
    (v): Move =>
      (f, tree) =>
        revealNode(tree, f, v % tree.groupOf.length, "peek"),
  ),
  fc.constant<Move>((f) => keepPeek(f)),
  fc.boolean().map(
    (hides): Move =>
      (f) =>
        setPlumbing(f, hides),
  ),
  fc.boolean().map(
    (folds): Move =>
      (f) =>
        setRepeats(f, folds),
  ),
  fc.nat(29).map(
    (v): Move =>
      (f) =>
        unfoldPlumbing(f, [v]),
  ),
  fc.array(paths, { minLength: 1 }).map(
    (blocks): Move =>
      (f, tree) => {
        const run = blocks.map((path) => tree.byPath.get(path) ?? 0).filter((g) => g > 0);
        return run.length > 0 ? openBlock(tree, f, run, tree.path[run[0]], 1) : f;
      },
  ),
);

/** A folding that a reader can reach. */
const reached = fc
  .record({ tree: trees, steps: fc.array(moves, { maxLength: 12 }) })
  .map(({ tree, steps }) => ({
    tree,
    folding: steps.reduce((folding, step) => step(folding, tree), firstFolding(tree)),
  }));

const visible = (tree: ReturnType<typeof groupTree>, folding: Folding) =>
  reduce({ source: [], target: [], tree, open: openPaths(folding) });

describe("folding", () => {
  it("never changes the state that it is given", () => {
    fc.assert(
      fc.property(reached, moves, ({ tree, folding }, move) => {
        const before = structuredClone(folding);
        move(folding, tree);
        expect(folding).toEqual(before);
      }),
    );
  });

  it("shows a group's content after opening it, whatever was closed around it", () => {
    fc.assert(
      fc.property(reached, fc.nat(29), ({ tree, folding }, at) => {
        const v = at % tree.groupOf.length;
        const path = tree.path[tree.groupOf[v]];
        const { nodes, nodeOf } = visible(tree, openGroup(tree, folding, path));
        expect(nodes[nodeOf[v]].group).toBe(-1);
      }),
    );
  });

  it("opens and closes there and back", () => {
    fc.assert(
      fc.property(reached, paths, ({ tree, folding }, path) => {
        fc.pre(tree.byPath.has(path));
        const open = openGroup(tree, folding, path);
        expect(isOpen(open, path)).toBe(true);
        const closed = closeGroup(open, path);
        expect(isOpen(closed, path)).toBe(false);
        expect(isOpen(openGroup(tree, closed, path), path)).toBe(true);
      }),
    );
  });

  it("closes nothing but the group that is closed", () => {
    fc.assert(
      fc.property(reached, paths, ({ folding }, path) => {
        const kept = [...openPaths(folding)].filter((other) => other !== path);
        expect([...openPaths(closeGroup(folding, path))].sort()).toEqual(kept.sort());
      }),
    );
  });

  it("reveals any node and hides none by it", () => {
    fc.assert(
      fc.property(reached, fc.nat(29), ({ tree, folding }, at) => {
        const v = at % tree.groupOf.length;
        const next = revealNode(tree, folding, v);
        for (const path of [...openPaths(folding), ...pathTo(tree, v)])
          expect(isOpen(next, path)).toBe(true);
        const { nodes, nodeOf } = visible(tree, next);
        expect(nodes[nodeOf[v]].group).toBe(-1);
        expect(next.unfolded.has(v)).toBe(true);
      }),
    );
  });

  it("peeks at one node at a time, and keeps only what is asked to stay", () => {
    fc.assert(
      fc.property(reached, fc.nat(29), fc.nat(29), ({ tree, folding }, a, b) => {
        const [v, w] = [a % tree.groupOf.length, b % tree.groupOf.length];
        const first = revealNode(tree, folding, v, "peek");
        const second = revealNode(tree, first, w, "peek");
        expect(openPaths(second)).toEqual(new Set([...folding.open, ...pathTo(tree, w)]));
        expect(openPaths(keepPeek(second))).toEqual(openPaths(second));
        const back = revealNode(tree, keepPeek(second), v, "peek");
        for (const path of openPaths(second)) expect(isOpen(back, path)).toBe(true);
      }),
    );
  });

  it("opens exactly so many levels, and says so", () => {
    fc.assert(
      fc.property(reached, fc.nat(6), ({ tree, folding }, depth) => {
        const next = toDepth(tree, folding, depth);
        expect(depthOf(tree, next)).toBe(Math.min(depth, deepest(tree)));
        for (let g = 1; g < tree.path.length; g++)
          expect(isOpen(next, tree.path[g])).toBe(tree.depth[g] <= depth);
      }),
    );
  });

  it("opens one block of a run in place of the others, with what is in it as deep as asked for", () => {
    const spaces = [0, 1, 2, 3].flatMap((i) => [`l/${i}/a/b/c`, `l/${i}/d`]);
    const tree = groupTree(spaces);
    const run = [0, 1, 2, 3].map((i) => tree.byPath.get(`l/${i}`) ?? 0);
    const closed = openGroup(tree, toDepth(tree, firstFolding(tree), 0), "l");
    const opened = openBlock(tree, openBlock(tree, closed, run, "l/1", 9), run, "l/2", 0);
    const openIn = (folding: Folding, block: string) =>
      [...openPaths(folding)].filter((path) => path.startsWith(block)).sort();
    expect(openPaths(opened).has("l/1")).toBe(false);
    expect(openIn(opened, "l/2")).toEqual(["l/2"]);
    // A module without submodules is one tile.
    const deeper = (levels: number) => openIn(openBlock(tree, opened, run, "l/3", levels), "l/3");
    expect(deeper(1)).toEqual(["l/3", "l/3/a"]);
    expect(deeper(9)).toEqual(["l/3", "l/3/a", "l/3/a/b"]);
  });

  it("says no depth where levels are open in part", () => {
    const tree = groupTree(["a", "b", "a/c"]);
    expect(depthOf(tree, openGroup(tree, toDepth(tree, firstFolding(tree), 0), "a"))).toBeNull();
  });

  it("folds all plumbing anew when its control is used", () => {
    fc.assert(
      fc.property(reached, ({ folding }) => {
        expect(setPlumbing(folding, true).unfolded.size).toBe(0);
      }),
    );
  });
});

describe("firstFolding", () => {
  it("shows a small graph whole", () => {
    const folding = firstFolding(groupTree(["a/b", "a", ""]));
    expect(openPaths(folding)).toEqual(new Set(["a", "a/b"]));
    expect(folding.hidesPlumbing).toBe(false);
  });

  it("opens nothing of a large graph, and hides its plumbing", () => {
    const folding = firstFolding(groupTree(Array(LARGEST_WHOLE + 1).fill("a/b")));
    expect(openPaths(folding).size).toBe(0);
    expect(folding.hidesPlumbing).toBe(true);
  });
});

it("compares foldings by what they show", () => {
  fc.assert(
    fc.property(trees, fc.constantFrom(...parts.slice(1)), (tree, path) => {
      const closed = toDepth(tree, firstFolding(tree), 0);
      const again = closeGroup(openGroup(tree, closed, path.split("/")[0]), path.split("/")[0]);
      expect(isSameFolding(again, closed)).toBe(true);
      expect(isSameFolding(setRepeats(closed, false), closed)).toBe(false);
    }),
  );
});
