import { describe, expect, it } from "vitest";
import { makeGraph } from "./graph";
import { addDummies, DETOUR } from "./rank";

/** A chain of n nodes, and edges from node 0 to the given ones. */
function skips(n: number, ...to: number[]) {
  const source = [...Array(n - 1).keys(), ...to.map(() => 0)];
  const target = [...Array(n - 1).keys()].map((v) => v + 1).concat(to);
  return makeGraph(n, Int32Array.from(source), Int32Array.from(target));
}

describe("addDummies", () => {
  it("cuts a long edge into one segment per rank", () => {
    const graph = skips(5, 4);
    const { size, rank, first, down, ranks } = addDummies(graph, Int32Array.of(0, 1, 2, 3, 4));
    expect(size).toBe(8);
    expect(Array.from(first)).toEqual([-1, -1, -1, -1, 5]);
    expect(Array.from(rank.subarray(5))).toEqual([1, 2, 3]);
    expect(Array.from(down.item.subarray(down.start[7], down.start[8]))).toEqual([4]);
    expect(ranks.start.length).toBe(6);
  });

  it("shares one chain per source where there are many", () => {
    const n = 60;
    const graph = skips(n, ...Array.from({ length: 50 }, (_, i) => i + 10));
    const { size, first } = addDummies(graph, Int32Array.from(Array(n).keys()));
    expect(size).toBe(n + n - 2);
    expect(new Set(first.subarray(n - 1)).size).toBe(1);
  });

  it("leaves out the longest chains when they are over the budget", () => {
    const graph = skips(10, 4, 9);
    const { first, size } = addDummies(graph, Int32Array.from(Array(10).keys()), 5);
    expect(Array.from(first.subarray(9))).toEqual([10, DETOUR]);
    expect(size).toBe(13);
  });
});
