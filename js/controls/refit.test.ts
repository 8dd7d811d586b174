import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Refit } from "./refit";

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("window", globalThis);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function made(
  widths: number[],
  { folding = true, camera = true, whole = true, nodes = 100 } = {},
): number {
  const again = vi.fn();
  const grouped = { graph: { nodes: { length: nodes } } } as never;
  const viewport = { isUntouched: camera, isWhole: whole };
  const refit = new Refit(viewport, { isUntouched: folding, grouped }, again);
  const [first, ...later] = widths;
  refit.madeFor(first);
  for (const width of later) {
    refit.widthIs(width);
    vi.advanceTimersByTime(1000);
  }
  return again.mock.calls.length;
}

it("folds anew for a place of quite another width, once it stays", () => {
  expect(made([800, 1400])).toBe(1);
  expect(made([1400, 800])).toBe(1);
  expect(made([800, 1400, 1380, 1400, 800])).toBe(2);
  expect(made([1400, 1200, 1100])).toBe(0);
});

it("waits until the width stays", () => {
  const again = vi.fn();
  const viewport = { isUntouched: true, isWhole: true };
  const refit = new Refit(viewport, { isUntouched: true, grouped: null }, again);
  refit.madeFor(600);
  for (let width = 600; width <= 1600; width += 10) refit.widthIs(width);
  expect(again).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1000);
  expect(again).toHaveBeenCalledTimes(1);
});

it("leaves alone what somebody has folded or looks at, and what is too large", () => {
  expect(made([800, 1400], { folding: false })).toBe(0);
  expect(made([800, 1400], { camera: false, whole: false })).toBe(0);
  expect(made([800, 1400], { camera: false, whole: true })).toBe(1);
  expect(made([800, 1400], { nodes: 100_000 })).toBe(0);
});

it("makes a picture at once that was made where it was not seen", () => {
  for (const camera of [true, false]) expect(made([0, 1000], { camera, whole: false })).toBe(1);
  expect(made([0, 0, 0])).toBe(0);
});
