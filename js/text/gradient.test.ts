import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  boardRows,
  compactNumber,
  compactValues,
  exactly,
  exactText,
  gradientTexts,
  hasNotFinite,
} from "./gradient";

describe("compactNumber", () => {
  it.each([
    [-4, "-4"],
    [0, "0"],
    [-0, "-0"],
    [0.5, "0.5"],
    [0.123456, "0.123"],
    [1234.5, "1235"],
    [0.0032, "0.0032"],
    [0.00032, "3.2e-4"],
    [1234567, "1.23e6"],
    [true, "True"],
    ["nan", "nan"],
    ["-inf", "-inf"],
  ])("writes %j as %s", (value, text) => expect(compactNumber(value)).toBe(text));

  it("is short and within half a percent of the number", () => {
    fc.assert(
      fc.property(fc.double({ min: -1e300, max: 1e300, noNaN: true }), (value) => {
        const text = compactNumber(value);
        expect(text.length).toBeLessThanOrEqual(10);
        expect(Math.abs(Number(text) - value)).toBeLessThanOrEqual(
          Math.abs(value) * 0.005 + 1e-323,
        );
      }),
    );
  });
});

describe("gradientTexts", () => {
  it("prefers values to the norm", () => {
    expect(gradientTexts({ values: [2, 1], norm: 2.236 }, "")).toEqual(["[2, 1]", "‖2.236‖"]);
    expect(gradientTexts({ values: null, norm: 0.00321 }, "grad")).toEqual(["grad ‖0.00321‖"]);
    expect(gradientTexts({ values: 4, norm: 4 }, "grad")[0]).toBe("grad 4");
    expect(gradientTexts({ values: null, norm: null }, "")).toEqual([]);
  });

  it("sees NaN and infinities at any depth", () => {
    expect(compactValues([[1, "nan"], []])).toBe("[[1, nan], []]");
    expect(hasNotFinite([[1, "nan"]])).toBe(true);
    expect(hasNotFinite([[1, 2], 3])).toBe(false);
  });
});

describe("few numbers on a card", () => {
  it("are the rows of a matrix, and in full on hover", () => {
    const third = 1 / 3;
    expect(
      boardRows([
        [1.5, -2],
        [third, -0],
      ]),
    ).toEqual(["[1.5, \u22122]", "[0.3333, 0]"]);
    for (const values of [3, [1, 2], [[1, 2]], [[[1]], [[2]]], Array(9).fill([1, 2])])
      expect(boardRows(values)).toBeNull();
    expect(exactly([third, -0, 1e-7, "nan"])).toBe("[0.3333333333333333, 0, 1e\u221207, nan]");
    expect(exactText({ values: null, norm: 2.4494897 })).toBe("\u20162.4494897\u2016");
  });
});
