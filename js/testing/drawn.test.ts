import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { layout } from "../layout/index";
import { type Drawn, judge } from "./drawn";
import * as shapes from "./layout_graphs";

type Point = [number, number];

/** Lines without boxes, each between its own two nodes. */
function lines(...given: Point[][]): Drawn {
  const start = [0];
  for (const line of given) start.push(start[start.length - 1] + 2 * line.length);
  const ends = given.flatMap((line) => [line[0], line[line.length - 1]]);
  return {
    x: ends.map(([x]) => x),
    y: ends.map(([, y]) => y),
    width: ends.map(() => 0),
    height: ends.map(() => 0),
    source: given.map((_, e) => 2 * e),
    target: given.map((_, e) => 2 * e + 1),
    points: given.flat(2),
    start,
  };
}

describe("judge", () => {
  it("counts the points where lines cross", () => {
    const down: Point[] = [
      [0, 0],
      [0, 100],
    ];
    expect(judge(lines(down)).crossings).toBe(0);
    expect(
      judge(
        lines(down, [
          [-10, 50],
          [10, 60],
        ]),
      ).crossings,
    ).toBe(1);
    // There and back again.
    expect(
      judge(
        lines(down, [
          [-10, 10],
          [10, 50],
          [-10, 90],
        ]),
      ).crossings,
    ).toBe(2);
  });

  it("counts no touch, no common end and no common piece", () => {
    const common: Point[] = [
      [0, 0],
      [0, 50],
    ];
    expect(judge(lines([...common, [-20, 100]], [...common, [20, 100]])).crossings).toBe(0);
    expect(
      judge(
        lines(common, [
          [0, 50],
          [20, 80],
        ]),
      ).crossings,
    ).toBe(0);
  });

  it("counts lines that run as one once", () => {
    const common: Point[] = [
      [0, 0],
      [0, 50],
    ];
    const across: Point[] = [
      [-10, 20],
      [10, 30],
    ];
    expect(judge(lines([...common, [-20, 100]], [...common, [20, 100]], across)).crossings).toBe(1);
  });

  it("counts as many crossings of straight lines as comparing all pairs does", () => {
    // Heights differ, and no three lines meet, with so many possible places.
    const place = fc.noBias(fc.integer({ min: 0, max: 1_000_000 }));
    fc.assert(
      fc.property(fc.array(fc.tuple(place, place), { maxLength: 30 }), (given) => {
        const drawn = lines(
          ...given.map(([a, b]): Point[] => [
            [a, 0],
            [b, 1_000_000],
          ]),
        );
        let pairs = 0;
        for (const [a, b] of given) for (const [c, d] of given) if (a < c && b > d) pairs++;
        expect(judge(drawn).crossings).toBe(pairs);
      }),
    );
  });

  it("counts lines through boxes, but not to them, and measures extent and length", () => {
    const drawn = {
      x: [50, 50, 50],
      y: [10, 50, 90],
      width: [40, 40, 40],
      height: [20, 20, 20],
      source: [0, 0],
      target: [2, 2],
      points: [50, 20, 50, 80, 50, 20, 100, 50, 50, 80],
      start: [0, 4, 10],
    };
    const found = judge(drawn);
    expect(found.through).toBe(1);
    expect([found.width, found.height]).toEqual([70, 100]);
    expect(found.length).toBeCloseTo(60 + 2 * Math.hypot(50, 30));
  });

  it.each([shapes.unet, shapes.lstm, shapes.gru, shapes.densenet])(
    "finds no line through a box in our pictures",
    (shape) => {
      const input = shape(6).input();
      const { x, y, owner, edgeTarget, points, pointStart, width } = layout(input);
      const found = judge({
        x,
        y,
        width: Array.from(owner, (v) => input.width[v]),
        height: Array.from(owner, (v) => input.height[v]),
        source: input.source,
        target: edgeTarget,
        points,
        start: pointStart,
      });
      expect(found.through).toBe(0);
      expect(found.width).toBeLessThanOrEqual(width + 0.01);
    },
  );
});
