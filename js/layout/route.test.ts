import { describe, expect, it } from "vitest";
import { addPoint, ports } from "./lines";

const portsAt = (distance: number[], width: number) =>
  Array.from(ports(Float64Array.from(distance), width));

describe("ports", () => {
  it("keeps a straight line in the middle and the others clear of it", () => {
    const [left, middle, right] = portsAt([-80, 0, 80], 100);
    expect(middle).toBe(0);
    expect(left).toBeLessThanOrEqual(-12);
    expect(right).toBe(-left);
  });

  it("spreads two lines to one node around the middle", () => {
    expect(portsAt([0, 0], 80)).toEqual([-6, 6]);
  });

  it("stays on the border, in order, however many lines there are", () => {
    for (const width of [0, 10, 40, 100]) {
      const offsets = portsAt(
        Array.from({ length: 30 }, (_, i) => i * 7 - 90),
        width,
      );
      for (const [i, offset] of offsets.entries()) {
        expect(Math.abs(offset)).toBeLessThanOrEqual(width / 2);
        if (i > 0) expect(offset).toBeGreaterThanOrEqual(offsets[i - 1]);
      }
    }
  });
});

describe("addPoint", () => {
  it("drops repeated points and points on a straight line", () => {
    const points: number[] = [];
    for (const [x, y] of [
      [0, 0],
      [0, 0],
      [0, 5],
      [0, 9],
      [4, 12],
    ])
      addPoint(points, 0, x, y);
    expect(points).toEqual([0, 0, 0, 9, 4, 12]);
  });
});
