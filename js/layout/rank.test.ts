import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeGraph } from "./graph";
import { peel, rank, topological } from "./rank";

function graphOf(n: number, edges: [number, number][]) {
  return makeGraph(
    n,
    Int32Array.from(edges, ([a]) => a),
    Int32Array.from(edges, ([, b]) => b),
  );
}

function ranks(n: number, edges: [number, number][]): number[] {
  const graph = graphOf(n, edges);
  return Array.from(rank(graph, topological(graph)));
}

describe("rank", () => {
  it("puts a leaf right below its consumer, not at the bottom", () => {
    // 0 -> 1 -> 2 -> 3, and a leaf 4 of 0
    expect(
      ranks(5, [
        [0, 1],
        [1, 2],
        [2, 3],
        [0, 4],
      ]),
    ).toEqual([0, 1, 2, 3, 1]);
  });

  it("puts a second root right above what it joins", () => {
    // 0 -> 1 -> 2 and 3 -> 2
    expect(
      ranks(4, [
        [0, 1],
        [1, 2],
        [3, 2],
      ]),
    ).toEqual([0, 1, 2, 1]);
  });

  it("gives a skip the length it needs and nothing else", () => {
    expect(
      ranks(4, [
        [0, 1],
        [1, 2],
        [2, 3],
        [0, 3],
      ]),
    ).toEqual([0, 1, 2, 3]);
  });

  it("lets a chain follow the node that gains", () => {
    // 0 -> 1 -> 2 -> 3 -> 4 -> 5, and a second root: 6 -> 7 -> 5 twice over 8
    const edges: [number, number][] = [
      [0, 1],
      [1, 2],
      [2, 3],
      [3, 4],
      [4, 5],
      [6, 7],
      [7, 5],
      [6, 8],
      [8, 5],
    ];
    const result = ranks(9, edges);
    expect([result[6], result[7], result[8]]).toEqual([3, 4, 4]);
  });

  it("runs every edge down, from rank 0", () => {
    const edges = fc.array(fc.tuple(fc.nat(19), fc.nat(19)), { maxLength: 50 });
    fc.assert(
      fc.property(edges, (pairs) => {
        const down = pairs.filter(([a, b]) => a < b);
        const result = ranks(20, down);
        for (const [a, b] of down) expect(result[a]).toBeLessThan(result[b]);
        expect(Math.min(...result)).toBe(0);
      }),
      { numRuns: 100 },
    );
  });
});

describe("topological", () => {
  it("names a node on or below a cycle", () => {
    const graph = graphOf(3, [
      [0, 1],
      [1, 2],
      [2, 1],
    ]);
    expect(() => topological(graph)).toThrow("The graph has a cycle");
  });
});

describe("peel", () => {
  it("takes trees off and leaves the cycle of a diamond", () => {
    // 0 -> {1, 2} -> 3 -> 4 -> 5
    const { peeled } = peel(
      graphOf(6, [
        [0, 1],
        [0, 2],
        [1, 3],
        [2, 3],
        [3, 4],
        [4, 5],
      ]),
    );
    expect(Array.from(peeled)).toEqual([5, 4]);
  });
});
