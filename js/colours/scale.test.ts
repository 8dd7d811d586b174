import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatBytes } from "../text/number";
import { logScale, placeOn, STEPS, stepOn, ticksOn } from "./scale";

const positive = fc.double({ min: 1e-300, max: 1e300, noNaN: true });
const several = fc.array(positive, { minLength: 1, maxLength: 20 });

describe("a scale", () => {
  it("is there only for positive, finite values", () => {
    expect(logScale([0, -1, Number.NaN, Number.POSITIVE_INFINITY])).toBeNull();
    expect(logScale([0, 3, Number.NaN, 7, Number.POSITIVE_INFINITY])).toEqual({
      least: 3,
      most: 7,
    });
  });

  it("gives larger values no darker a colour, and uses both ends", () => {
    fc.assert(
      fc.property(several, (values) => {
        const scale = logScale(values);
        if (!scale) throw new Error("A positive value gave no scale.");
        const sorted = [...values].sort((a, b) => a - b);
        const steps = sorted.map((value) => stepOn(scale, value));
        for (let i = 1; i < steps.length; i++)
          expect(steps[i]).toBeGreaterThanOrEqual(steps[i - 1]);
        for (const step of steps) {
          expect(step).toBeGreaterThanOrEqual(0);
          expect(step).toBeLessThan(STEPS);
        }
        if (scale.most / scale.least > 1.001) {
          expect(steps[0]).toBe(0);
          expect(steps[steps.length - 1]).toBe(STEPS - 1);
        }
      }),
    );
  });

  it("puts equal ratios at equal distances", () => {
    const scale = { least: 1e-4, most: 1 };
    for (let power = 0; power <= 4; power++)
      expect(placeOn(scale, 10 ** (power - 4))).toBeCloseTo(power / 4);
  });

  it("writes a few round values that lie on it, in order", () => {
    fc.assert(
      fc.property(several, fc.constantFrom(2, 10, 1024), (values, base) => {
        const scale = logScale(values);
        if (!scale) throw new Error("A positive value gave no scale.");
        const ticks = ticksOn(scale, base);
        expect(ticks.length).toBeGreaterThan(0);
        expect(ticks.length).toBeLessThanOrEqual(5);
        for (const tick of ticks) {
          expect(tick / scale.least).toBeGreaterThan(0.999);
          expect(tick / scale.most).toBeLessThan(1.001);
        }
        expect([...ticks].sort((a, b) => a - b)).toEqual(ticks);
      }),
    );
    expect(ticksOn({ least: 0.003, most: 20 }, 10)).toEqual([0.01, 0.1, 1, 10]);
    expect(ticksOn({ least: 2, most: 5 }, 10)).toEqual([2, 5]);
  });
});

describe("formatBytes", () => {
  it.each([
    [0, "0 bytes"],
    [1, "1 byte"],
    [512, "512 bytes"],
    [1536, "1.5 KiB"],
    [1024 * 1024 - 1, "1 MiB"],
    [25.25 * 1024 * 1024, "25.3 MiB"],
    [3 * 1024 ** 3, "3 GiB"],
  ])("writes %d as %s", (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });
});
