import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { smooth, smoothUp } from "./curve";

const number = fc.integer({ min: -500, max: 500 });
/** Routes that run down, as the layout makes them. */
const routes = fc
  .tuple(number, fc.array(fc.tuple(number, fc.integer({ min: 1, max: 200 })), { minLength: 1 }))
  .map(([start, steps]) => {
    const points: [number, number][] = [[start, 0]];
    for (const [x, down] of steps) points.push([x, points[points.length - 1][1] + down]);
    return points;
  });

describe("a smooth line", () => {
  it("stays between the ends of each of its pieces", () => {
    fc.assert(
      fc.property(routes, (route) => {
        const curve = smooth(route);
        for (let i = 0; i + 7 < curve.length; i += 6) {
          for (const k of [2, 4]) {
            for (const axis of [0, 1]) {
              const ends = [curve[i + axis], curve[i + 6 + axis]];
              expect(curve[i + k + axis]).toBeGreaterThanOrEqual(Math.min(...ends));
              expect(curve[i + k + axis]).toBeLessThanOrEqual(Math.max(...ends));
            }
          }
        }
      }),
    );
  });

  it("that runs up is the mirror image of one that runs down", () => {
    fc.assert(
      fc.property(routes, (route) => {
        const mirrored = smoothUp(route.map(([x, y]) => [x, -y]));
        expect(mirrored.map((value, i) => (i % 2 ? 0 - value : value))).toEqual(smooth(route));
      }),
    );
  });

  it("turns sharply where a route turns square", () => {
    const square: [number, number][] = [
      [0, 0],
      [0, 50],
      [80, 50],
      [80, -50],
      [120, -50],
      [120, 20],
    ];
    const curve = smooth(square);
    const at = (i: number) => [curve[i], curve[i + 1]];
    expect(curve.length).toBe(2 + 6 * 5);
    for (let piece = 0; piece < 5; piece++) {
      const [a, b] = [at(6 * piece), at(6 * piece + 6)];
      expect(b).toEqual(square[piece + 1]);
      // Both handles are on the straight line between the ends.
      for (const k of [2, 4]) {
        const [x, y] = at(6 * piece + k);
        if (a[0] === b[0]) expect(x).toBe(a[0]);
        else expect(y).toBe(a[1]);
      }
    }
  });
});
