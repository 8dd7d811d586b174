import fc from "fast-check";
import { expect, it } from "vitest";
import { halfway, pointAt } from "./curve";

/** Lengths of the parts of a curve before and after the point on it that is nearest to another. */
function parts(curve: number[], [x, y]: readonly [number, number]): [number, number] {
  const n = 4000;
  const points = Array.from({ length: n + 1 }, (_, i) => pointAt(curve, i / n));
  const distances = points.map(([px, py]) => Math.hypot(px - x, py - y));
  const nearest = distances.indexOf(Math.min(...distances));
  const length = (from: number, to: number) => {
    let sum = 0;
    for (let i = from; i < to; i++)
      sum += Math.hypot(points[i + 1][0] - points[i][0], points[i + 1][1] - points[i][1]);
    return sum;
  };
  return [length(0, nearest), length(nearest, n)];
}

it("has as much of the curve before the halfway point as after it", () => {
  const step = fc.integer({ min: 5, max: 200 });
  fc.assert(
    fc.property(fc.integer({ min: -300, max: 300 }), step, step, (across, down, further) => {
      // Down, over to the side, down: the shape of a line that passes a row.
      const curve = [0, 0, 0, down / 2, across, down / 2, across, down];
      curve.push(across, down + further / 3, across, down + further / 2, across, down + further);
      const [before, after] = parts(curve, halfway(curve));
      expect(Math.abs(before - after)).toBeLessThan(0.04 * (before + after) + 1);
    }),
  );
});

it("finds the middle of a straight line", () => {
  expect(halfway([0, 0, 0, 1, 0, 2, 0, 9])).toEqual([0, expect.closeTo(4.5, 3)]);
});
