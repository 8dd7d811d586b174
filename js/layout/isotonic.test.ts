import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isotonic, makePoolScratch } from "./coordinates";

function placed(wish: number[], weight: number[], gap: number[]): number[] {
  const result = Float64Array.from(wish);
  isotonic(
    wish.length,
    result,
    Float64Array.from(weight),
    Float64Array.from(gap),
    makePoolScratch(wish.length),
  );
  return Array.from(result);
}

describe("place", () => {
  it("leaves alone what is already far enough apart", () => {
    expect(placed([0, 10, 30], [1, 1, 1], [10, 10])).toEqual([0, 10, 30]);
  });

  it("moves two that wish for one place equally far", () => {
    expect(placed([0, 0], [1, 1], [10])).toEqual([-5, 5]);
  });

  it("moves the lighter one further", () => {
    expect(placed([0, 0], [3, 1], [8])).toEqual([-2, 6]);
  });

  it("keeps gaps, and cannot be bettered by moving one place alone", () => {
    const item = fc.tuple(
      fc.integer({ min: -50, max: 50 }),
      fc.integer({ min: 1, max: 9 }),
      fc.nat(20),
    );
    fc.assert(
      fc.property(fc.array(item, { minLength: 1, maxLength: 12 }), (items) => {
        const wish = items.map(([w]) => w);
        const gap = items.map(([, , g]) => g);
        const x = placed(
          wish,
          items.map(([, w]) => w),
          gap,
        );
        for (let i = 0; i < x.length; i++) {
          if (i > 0) expect(x[i] - x[i - 1]).toBeGreaterThan(gap[i - 1] - 1e-9);
          const low = i > 0 ? x[i - 1] + gap[i - 1] : -Infinity;
          const high = i + 1 < x.length ? x[i + 1] - gap[i] : Infinity;
          const alone = Math.max(low, Math.min(high, wish[i]));
          expect(Math.abs(alone - x[i])).toBeLessThan(1e-6);
        }
      }),
      { numRuns: 100 },
    );
  });
});
