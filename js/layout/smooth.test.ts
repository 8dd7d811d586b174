import fc from "fast-check";
import { describe, expect, it } from "vitest";
import * as shapes from "../testing/layout_graphs";
import { crossings, positions, smooth } from "./order";

/** A strip of many ranks, each node joined to the one below and the next, with many neighbours exchanged. */
function strip(rows: number, width: number, seed: number) {
  const edges: [number, number][] = [];
  for (let r = 0; r + 1 < rows; r++) {
    for (let i = 0; i < width; i++) {
      edges.push([r * width + i, (r + 1) * width + i]);
      if (i + 1 < width) edges.push([r * width + i, (r + 1) * width + i + 1]);
    }
  }
  const layered = shapes.layered(rows * width, edges);
  const order = layered.ranks.item.slice();
  const random = shapes.randomInts(seed);
  for (let r = 0; r < rows; r++) {
    for (let i = random(2); i + 1 < width; i += 2) {
      if (random(2)) continue;
      const [a, b] = [r * width + i, r * width + i + 1];
      [order[a], order[b]] = [order[b], order[a]];
    }
  }
  return { layered, order };
}

describe("smooth", () => {
  it("finds the order of a strip from one that is wrong everywhere", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1000 }), (seed) => {
        const { layered, order } = strip(12, 8, seed);
        fc.pre(crossings(layered, order, positions(layered, order)) > 20);
        smooth(layered, order, 100);
        expect(crossings(layered, order, positions(layered, order))).toBe(0);
      }),
      { numRuns: 50 },
    );
  });

  it("leaves every node in its rank, also those that nothing joins", () => {
    const layered = shapes.layered(5, [[0, 3]], [0, 0, 0, 1, 1]);
    const order = layered.ranks.item.slice();
    smooth(layered, order, 10);
    expect([...order.slice(0, 3)].sort()).toEqual([0, 1, 2]);
    expect([...order.slice(3)].sort()).toEqual([3, 4]);
  });
});
