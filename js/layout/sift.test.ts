import fc from "fast-check";
import { describe, expect, it } from "vitest";
import * as shapes from "../testing/layout_graphs";
import { crossings, positions, sift } from "./order";

const random = fc.integer({ min: 1, max: 1000 }).map((seed) => {
  const layered = shapes.layeredSketch(shapes.randomLayered(60, 8, seed));
  return { layered, order: layered.ranks.item.slice() };
});

describe("sift", () => {
  it("only ever takes crossings away, and leaves every node in its rank", () => {
    fc.assert(
      fc.property(random, fc.integer({ min: 0, max: 3000 }), ({ layered, order }, effort) => {
        const position = positions(layered, order);
        const before = crossings(layered, order, position);
        sift(layered, order, position, effort);
        expect(crossings(layered, order, position)).toBeLessThanOrEqual(before);
        expect(position).toEqual(positions(layered, order));
        for (let r = 0; r + 1 < layered.ranks.start.length; r++) {
          const row = (all: Int32Array) =>
            all.slice(layered.ranks.start[r], layered.ranks.start[r + 1]).sort();
          expect(row(order)).toEqual(row(layered.ranks.item));
        }
      }),
      { numRuns: 100 },
    );
  });

  it("ends where no node alone can gain by going elsewhere in its rank", () => {
    fc.assert(
      fc.property(random, ({ layered, order }) => {
        const position = positions(layered, order);
        sift(layered, order, position, 1e9);
        const fewest = crossings(layered, order, position);
        for (let i = 0; i < order.length; i++) {
          const r = layered.rank[order[i]];
          for (let j = layered.ranks.start[r]; j < layered.ranks.start[r + 1]; j++) {
            const other = Array.from(order);
            other.splice(j, 0, ...other.splice(i, 1));
            const moved = Int32Array.from(other);
            expect(crossings(layered, moved, positions(layered, moved))).toBeGreaterThanOrEqual(
              fewest,
            );
          }
        }
      }),
      { numRuns: 15 },
    );
  });

  it("moves a node past others that do not gain by themselves", () => {
    // 0 1 2 above 3 4 5: 0 belongs to the far right, but stepping past 1 alone gains nothing.
    const layered = shapes.layered(6, [
      [0, 5],
      [0, 5],
      [1, 5],
      [1, 5],
      [2, 3],
      [2, 4],
    ]);
    const order = layered.ranks.item.slice();
    const position = positions(layered, order);
    expect(crossings(layered, order, position)).toBeGreaterThan(0);
    sift(layered, order, position, 1000);
    expect(crossings(layered, order, position)).toBe(0);
  });
});
