import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { heldView } from "../scene/views";

const number = fc.integer({ min: -5000, max: 5000 });
const point = fc.tuple(number, number);
const views = fc.record({ k: fc.constantFrom(0.1, 0.5, 1, 2), x: number, y: number });

describe("a held place", () => {
  it("is seen where it was, at the same scale", () => {
    fc.assert(
      fc.property(views, point, point, (view, from, to) => {
        const held = heldView(view, { from, to });
        expect(held.k).toBe(view.k);
        expect(held.k * to[0] + held.x).toBeCloseTo(view.k * from[0] + view.x);
        expect(held.k * to[1] + held.y).toBeCloseTo(view.k * from[1] + view.y);
      }),
    );
  });
});
