import { describe, expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import { transformer } from "../demo/deep_models";
import { firstFolding } from "../fold/folding";
import { foldedPlan, type GroupedGraph, groupedGraph } from "../fold/grouped_graph";
import {
  openedAlike,
  openedFurther,
  thingsIn,
  withLargestBox,
  withMore,
  withOneBlock,
} from "./opening";

/** A box of two or more layers: its path, its class, and the size of its weights. */
type Box = readonly [path: string, kind: string | null, size: number];

/** Boxes of layers in a row. */
function boxesInRow(boxes: readonly Box[]): GroupedGraph {
  const g = new Builder();
  let x = g.leaf("x", [4]);
  for (const [path, , size] of boxes)
    for (const layer of ["first", "second"]) {
      g.namespace = `${path}/${layer}`;
      const weight = g.leaf(`${g.namespace.replaceAll("/", ".")}.weight`, [size]);
      x = g.op("MulBackward0", [4], { self: x, other: weight });
      x = g.op("ExpBackward0", [4], { self: x });
    }
  g.namespace = "";
  const graph = g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
  const known = boxes.flatMap(([path, kind]) => (kind === null ? [] : [{ path, kind }]));
  const modules = {
    namespaces: known.map(({ path }) => path),
    classes: known.map((_, i) => i),
    names: known.map(({ kind }) => kind),
  };
  return groupedGraph({ ...graph, modules });
}

function opener(grouped: GroupedGraph) {
  const more = withMore(grouped);
  const hasMore = (g: number) => more[g] === 1;
  const withOpen = (...open: string[]) => ({ ...firstFolding(grouped.tree), open: new Set(open) });
  return { hasMore, withOpen };
}

describe("boxes of one class", () => {
  const alike = (boxes: readonly Box[], open: readonly string[], held: readonly string[] = []) => {
    const grouped = boxesInRow(boxes);
    const { hasMore, withOpen } = opener(grouped);
    const folding = withOpen(...open);
    const plan = foldedPlan(grouped, folding);
    return [...openedAlike(grouped, folding, plan, hasMore, new Set(held)).open];
  };

  it("are closed at one depth if they are at another", () => {
    const boxes: Box[] = [
      ["net/down/block", "Res", 3],
      ["net/mid", "Res", 3],
      ["net/head", "Head", 3],
    ];
    const open = ["net", "net/down", "net/mid", "net/head"];
    expect(alike(boxes, open)).toEqual(["net", "net/down", "net/head"]);
    expect(alike(boxes, open, ["net/mid"])).toEqual(open); // the reader opened it
    expect(alike(boxes, [...open, "net/down/block"])).toEqual([...open, "net/down/block"]);
  });

  it("may differ where they are containers, of unknown class, or in each other", () => {
    const pair = (kind: string | null): Box[] => [
      ["net/down/block", kind, 3],
      ["net/mid", kind, 3],
    ];
    const open = ["net", "net/down", "net/mid"];
    expect(alike(pair("Sequential"), open)).toEqual(open);
    expect(alike(pair(null), open)).toEqual(open);
    const nested: Box[] = [
      ["net/tree", "Tree", 3],
      ["net/tree/left", "Tree", 3],
      ["net/tree/left/left", "Tree", 3],
    ];
    expect(alike(nested, ["net", "net/tree", "net/tree/left"])).toHaveLength(3);
  });
});

describe("opening more", () => {
  const opened = (large: number, refused: string, extra = 12) => {
    const singles = Array.from({ length: extra }, (_, i): Box => [`net/a${i}x`, `Kind${i}`, 1]);
    const boxes: Box[] = [["net/big", "Big", large], ["net/small", "Small", 5], ...singles];
    const grouped = boxesInRow(boxes);
    const { hasMore, withOpen } = opener(grouped);
    const { open } = openedFurther(
      grouped,
      withOpen("net"),
      (g) => hasMore(g) && !/x$/.test(grouped.tree.path[g]),
      (folding) => !folding.open.has(refused),
    );
    return ["net/big", "net/small"].filter((path) => open.has(path));
  };

  it("keeps a box closed beside a larger one that stays closed, unless there is little to see", () => {
    expect(opened(9, "net/big")).toEqual([]);
    expect(opened(9, "net/small")).toEqual(["net/big"]);
    expect(opened(9, "none")).toEqual(["net/big", "net/small"]);
    expect(opened(3, "net/big")).toEqual(["net/small"]);
    expect(opened(9, "net/big", 2)).toEqual(["net/small"]);
  });
});

describe("the largest box of the largest class", () => {
  const boxes: readonly Box[] = [
    ["net/one", "Block", 1000],
    ["net/two", "Block", 3000],
    ["net/three", "Block", 3000],
    ["net/other", "Other", 5000],
  ];
  const grouped = boxesInRow(boxes);
  const { hasMore, withOpen } = opener(grouped);
  const closed = withOpen("net");
  const openIn = (isReadable: boolean) =>
    withLargestBox(grouped, closed, hasMore, () => isReadable);

  it("is open beside its closed equals if that is readable", () => {
    expect([...openIn(true).open].sort()).toHaveLength(2);
    expect(openIn(true).open.has("net/two") || openIn(true).open.has("net/three")).toBe(true);
    expect(openIn(false)).toBe(closed);
  });
});

describe("a block of the only strip", () => {
  const path = "encoder/layers";
  const openIn = (
    layers: number,
    canBeRead: (open: ReadonlySet<string>, scale?: number) => boolean,
  ) => {
    const grouped = groupedGraph(transformer(layers));
    const { withOpen } = opener(grouped);
    const closed = withOpen("encoder", path);
    const next = withOneBlock(grouped, closed, ({ open }, scale) => canBeRead(open, scale));
    const { frames } = foldedPlan(grouped, next);
    const blocks = frames.map((frame) => frame.path).filter((one) => one.startsWith(`${path}/`));
    return { blocks, isSame: next === closed, count: thingsIn(grouped, closed) };
  };

  it("is open in a picture of few items, with its boxes if these are readable, too", () => {
    const last = `${path}/3`;
    expect(openIn(4, () => true).blocks).toEqual([last, `${last}/self_attn`]);
    expect(openIn(4, (open) => !open.has(last)).blocks[0]).toBe(`${path}/0`);
  });

  it("is closed where nobody could read it, and without a strip", () => {
    expect(openIn(4, () => false).isSame).toBe(true);
    expect(openIn(3, () => true).isSame).toBe(true); // no strip
  });

  it("has its largest box open, unless it is drawn at its own size or larger", () => {
    const within =
      (most: number) =>
      (open: ReadonlySet<string>, scale = 0) =>
        scale <= most && ![...open].some((one) => one.includes("attn"));
    expect(openIn(4, within(0.9)).isSame).toBe(true);
    expect(openIn(4, within(1)).blocks).toEqual([`${path}/3`]);
  });

  it("is closed where its blocks are many", () => {
    const { isSame, count } = openIn(12, () => true);
    expect([isSame, count >= 12]).toEqual([true, true]);
  });
});
