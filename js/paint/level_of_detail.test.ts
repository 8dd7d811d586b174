import fc from "fast-check";
import { expect, it } from "vitest";
import {
  FAR,
  type PainterKind,
  painterFor,
  seenWidth,
  solidity,
  textOpacity,
  titleScale,
} from "./level_of_detail";

const scales = fc.double({ min: 0.005, max: 4, noNaN: true });

it("gives a few nodes near to the elements, and many or far ones to the canvas", () => {
  expect(painterFor(1, 20)).toBe("svg");
  expect(painterFor(1, 301)).toBe("canvas");
  expect(painterFor(0.39, 20)).toBe("canvas");
});

it("never changes back at once: between the two there is room", () => {
  fc.assert(
    fc.property(scales, fc.nat(1000), (scale, visible) => {
      for (const now of ["svg", "canvas"] as PainterKind[]) {
        const next = painterFor(scale, visible, now);
        expect(painterFor(scale, visible, next)).toBe(next);
        // A small change does not revert it.
        if (next !== now)
          for (const factor of [0.95, 1.05])
            expect(painterFor(scale * factor, Math.round(visible * factor), next)).toBe(next);
      }
    }),
  );
});

it("changes nothing in looks where the canvas takes over from the elements, or hands back", () => {
  for (const scale of [FAR * 0.9, FAR, FAR * 1.1]) {
    expect(solidity(scale)).toBe(0);
    expect(seenWidth(1.3, scale)).toBeCloseTo(1.3 * scale, 0);
    expect(textOpacity(10, scale)).toBe(1);
  }
});

it("lets everything appear and vanish gradually", () => {
  fc.assert(
    fc.property(scales, (scale) => {
      const next = scale * 1.01;
      expect(Math.abs(solidity(next) - solidity(scale))).toBeLessThan(0.05);
      expect(Math.abs(textOpacity(12, next) - textOpacity(12, scale))).toBeLessThan(0.05);
      expect((titleScale(next) * next) / (titleScale(scale) * scale)).toBeLessThan(1.02);
      expect(seenWidth(1, next)).toBeGreaterThanOrEqual(seenWidth(1, scale));
    }),
  );
});
