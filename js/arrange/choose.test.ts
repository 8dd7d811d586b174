import { describe, expect, it } from "vitest";
import type { Wrap } from "../place/laid_out";
import type { Placement } from "../scene/placement";
import { inRows } from "./choose";

const ROOM = { width: 700, height: 600 };

/** Pictures that are 4,000 px long in one row of 100 px, in more and more rows; and the wraps that were tried. */
function rows(counts: readonly number[], extent = 4000) {
  const tried: number[] = [];
  const placed = (count: number) =>
    ({ height: extent / count, width: 100 * count }) as unknown as Placement;
  const wraps: Wrap[] = counts.map((aspect) => ({ aspect }));
  const way = {
    direction: "left" as const,
    isSpent: () => tried.length >= 16,
    laid: ({ aspect = 1 }: Wrap) => {
      tried.push(aspect);
      return placed(aspect);
    },
  };
  return { tried, wraps, way, first: { placed: placed(1), wrap: {} } };
}

describe("wrapping", () => {
  it("takes the fewest rows that are legible", () => {
    const { tried, wraps, way, first } = rows([2, 3, 6, 7]);
    expect(inRows(first, wraps, ROOM, way).wrap.aspect).toBe(6);
    expect(tried).toEqual([2, 3, 6]);
  });

  it("takes the largest picture if asked, and stops where the breadth limits it", () => {
    const { tried, wraps, way, first } = rows([2, 5, 6, 7, 8, 9]);
    expect(inRows(first, wraps, ROOM, way, { isLargest: true }).wrap.aspect).toBe(6);
    expect(tried).toEqual([2, 5, 6]);
  });

  it("goes back to fewer rows from a wrap that is too broad", () => {
    const { tried, wraps, way, first } = rows([4, 6, 9], 2000);
    expect(inRows(first, wraps, ROOM, way, { from: 2 }).wrap.aspect).toBe(6);
    expect(tried).toEqual([9, 6]);
  });

  it("returns the best one so far when the layouts are spent", () => {
    const { tried, wraps, way, first } = rows(
      Array.from({ length: 40 }, (_, i) => 2 + i / 100),
      9000,
    );
    expect(inRows(first, wraps, ROOM, way).wrap.aspect).toBeGreaterThan(1);
    expect(tried).toHaveLength(16);
  });
});
