import { describe, expect, it } from "vitest";
import { copyShared } from ".";
import { components, pack } from "./content";
import { makeGraph } from "./graph";

describe("components", () => {
  it("groups what is joined, whichever way its edges run", () => {
    // 0 -> 2 <- 3, and 1 alone
    const { start, item } = components(makeGraph(4, Int32Array.of(0, 3), Int32Array.of(2, 2)));
    expect([Array.from(start), Array.from(item)]).toEqual([
      [0, 3, 4],
      [0, 2, 3, 1],
    ]);
  });
});

describe("pack", () => {
  it("puts a few side by side and wraps many", () => {
    const few = pack(Float64Array.of(100, 50), Float64Array.of(80, 200), 10);
    expect([Array.from(few.left), Array.from(few.top), few.width, few.height]).toEqual([
      [0, 110],
      [0, 0],
      160,
      200,
    ]);
    const many = pack(new Float64Array(400).fill(50), new Float64Array(400).fill(30), 10);
    expect(many.width / many.height).toBeLessThan(3);
    expect(many.width).toBeGreaterThan(many.height);
  });
});

describe("copyShared", () => {
  it("keeps the leaf for its first use and numbers copies in edge order", () => {
    const { edgeTarget, owner } = copyShared(4, [0, 1, 0], [3, 3, 3], [0, 0, 0, 1]);
    expect(Array.from(edgeTarget)).toEqual([3, 4, 5]);
    expect(Array.from(owner)).toEqual([0, 1, 2, 3, 3, 3]);
  });

  it("does not copy a node that has edges of its own", () => {
    const { owner } = copyShared(4, [0, 1, 2], [2, 2, 3], [0, 0, 1, 0]);
    expect(owner.length).toBe(4);
  });
});
