import { describe, expect, it } from "vitest";
import type { Placement } from "../scene/placement";
import type { Sized } from "../scene/sizes";
import { LEGIBLE } from "../scene/views";
import { boundOf } from "./bounds";
import { fitsDense, repairsOf, wrapsFor } from "./candidates";
import { scaleIn } from "./score";

/** A chain of so many boxes of 100 by 50 px, flowing to the left. */
const chain = (count: number) => {
  const shape = { width: 100, height: 50, outerWidth: 100, outerHeight: 50 };
  return {
    plan: { frames: [], nodes: [], edges: [] },
    shapes: Array.from({ length: count }, () => shape),
    times: new Int32Array(count).fill(1),
    direction: "left",
  } as unknown as Sized;
};
/** In one row, with gaps of 20 px. */
const rowOf = (count: number) => {
  const at = Array.from({ length: count }, (_, i) => i);
  return {
    x: Float64Array.from(at, () => 25),
    y: Float64Array.from(at, (i) => 50 + 120 * i),
    owner: Int32Array.from(at),
    rank: Int32Array.from(at),
    width: 50,
    height: 120 * count - 20,
  } as unknown as Placement;
};
const ROOM = { width: 700, height: 600 };

describe("the wraps of a picture", () => {
  it("are one per number of rows, from few rows to many", () => {
    const wraps = wrapsFor(rowOf(12), chain(12), ROOM);
    expect(wraps[0]).toEqual({});
    const aspects = wraps.slice(1).map(({ aspect = 0 }) => aspect);
    expect(aspects).toEqual([...new Set(aspects)].sort((a, b) => a - b));
    expect(wrapsFor(rowOf(2), chain(2), ROOM).length).toBeLessThan(wraps.length);
  });

  it("may be one row with the least gaps", () => {
    expect(fitsDense(rowOf(6), ROOM, "left")).toBe(true);
    expect(fitsDense(rowOf(12), ROOM, "left")).toBe(false);
  });

  it("repair only the faults that there are", () => {
    const wraps = [{ aspect: 1 }, { aspect: 2 }];
    const none = {
      ...{ value: 2, isFaultless: true },
      ...{ isBroken: false, isBent: false, isDense: false, isAlone: false },
    };
    expect(repairsOf(none, wraps)).toEqual([]);
    expect(repairsOf({ ...none, isAlone: true }, wraps)).toEqual([
      { aspect: 1, wrapsWhole: false },
      { aspect: 2, wrapsWhole: false },
    ]);
    expect(repairsOf({ ...none, isBent: true, isDense: true }, wraps)).toHaveLength(4);
    const between = repairsOf({ ...none, isBroken: true }, wraps);
    expect(between.every((wrap) => wrap.between)).toBe(true);
  });
});

describe("the bound of a picture", () => {
  it("falls with the area of its boxes", () => {
    expect(boundOf(chain(40), ROOM)).toBeCloseTo(boundOf(chain(10), ROOM) / 2);
    expect(boundOf(chain(400), ROOM)).toBeLessThan(LEGIBLE);
  });

  it("is not below the scale of a picture that fills the room", () => {
    expect(boundOf(chain(6), { width: 700, height: 100 })).toBeGreaterThan(
      scaleIn({ width: 700, height: 100 }, rowOf(6), "left"),
    );
  });
});
