import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { layered } from "../testing/layout_graphs";
import { crossings, positions } from "./order";
import type { Layered } from "./rank";

/** All pairs of segments, compared one by one. */
function crossingsByPairs({ down, rank, size }: Layered, position: Int32Array): number {
  const segments: [number, number][] = [];
  for (let v = 0; v < size; v++) {
    for (let j = down.start[v]; j < down.start[v + 1]; j++) segments.push([v, down.item[j]]);
  }
  let sum = 0;
  for (const [a, b] of segments) {
    for (const [c, d] of segments) {
      if (rank[a] === rank[c] && position[a] < position[c] && position[b] > position[d]) sum++;
    }
  }
  return sum;
}

describe("crossings", () => {
  it("counts the one crossing of an X", () => {
    //  0   1
    //    X
    //  2   3
    const graph = layered(
      4,
      [
        [0, 3],
        [1, 2],
      ],
      [0, 0, 1, 1],
    );
    const order = Int32Array.of(0, 1, 2, 3);
    expect(crossings(graph, order, positions(graph, order))).toBe(1);
  });

  it("counts none between lines that share an end", () => {
    //   0        0   1
    //  / \        \ /
    // 1   2        2
    const fork = layered(3, [
      [0, 1],
      [0, 2],
    ]);
    const join = layered(3, [
      [0, 2],
      [1, 2],
    ]);
    for (const graph of [fork, join]) {
      expect(crossings(graph, graph.ranks.item, positions(graph, graph.ranks.item))).toBe(0);
    }
  });

  it("agrees with looking at every pair, by the tree and by insertion", () => {
    const edges = fc.array(fc.tuple(fc.nat(11), fc.integer({ min: 12, max: 23 })), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(edges, (pairs) => {
        const ranks = Array.from({ length: 24 }, (_, v) => (v < 12 ? 0 : 1));
        const graph = layered(24, pairs as [number, number][], ranks);
        const position = positions(graph, graph.ranks.item);
        expect(crossings(graph, graph.ranks.item, position)).toBe(
          crossingsByPairs(graph, position),
        );
      }),
      { numRuns: 100 },
    );
  });
});
