import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { spread } from "./scene_edges";

describe("spread", () => {
  const cases = fc
    .record({
      offsets: fc.array(fc.double({ min: -50, max: 50, noNaN: true }), {
        minLength: 1,
        maxLength: 9,
      }),
      gap: fc.integer({ min: 0, max: 60 }),
      pin: fc.option(fc.nat()),
    })
    .map(({ offsets, gap, pin }) => ({
      offsets: [...offsets].sort((a, b) => a - b),
      gaps: Array.from({ length: offsets.length - 1 }, () => gap),
      pinned: pin === null ? null : pin % offsets.length,
    }));

  it("keeps order and room, and the gaps as far as there is room", () => {
    fc.assert(
      fc.property(cases, ({ offsets, gaps, pinned }) => {
        const room = 60;
        const placed = spread(offsets, gaps, pinned, room);
        const fits = pinned === null && gaps.reduce((sum, gap) => sum + gap, 0) <= 2 * room;
        placed.forEach((at, i) => {
          expect(Math.abs(at)).toBeLessThanOrEqual(room + 1e-6);
          if (i > 0)
            expect(at - placed[i - 1]).toBeGreaterThanOrEqual((fits ? gaps[i - 1] : 0) - 1e-6);
        });
        if (pinned !== null) expect(placed[pinned]).toBeCloseTo(offsets[pinned], 2);
      }),
    );
  });

  it("moves nothing that is far enough apart", () => {
    expect(spread([-30, 0, 30], [20, 20], 1, 60)).toEqual([-30, 0, 30]);
  });
});
