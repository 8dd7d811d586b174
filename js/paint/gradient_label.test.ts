import { expect, test } from "vitest";
import { estimate } from "../text/measure";
import { fewOf } from "./gradient_label";

const NARROW = estimate("\u20161.2e\u221245\u2016", "digits") + 1;

test.each([...Array(70).keys()].map((i) => 1.23456 * 10 ** (i - 45)))(
  "a norm of %d is rounded in a narrow card",
  (norm) => {
    const texts = fewOf({ values: null, norm });
    const text = texts.find((one) => estimate(one, "digits") < NARROW) ?? texts.at(-1) ?? "";
    expect(estimate(text, "digits")).toBeLessThan(NARROW);
    const given = Number(text.replaceAll("\u2016", "").replace("\u2212", "-"));
    expect(Math.abs(given - norm)).toBeLessThan(0.05 * norm);
  },
);

test("values come before their norm, and one number has none", () => {
  expect(fewOf({ values: [1, -2], norm: 2.236 })[0]).toBe("[1, \u22122]");
  expect(fewOf({ values: 3, norm: 3 })).toEqual(["3"]);
  expect(fewOf({ values: null, norm: "NaN" }).at(-1)).toContain("NaN");
});

test("up to three numbers are rounded before their norm takes their place", () => {
  expect(fewOf({ values: [-0.34102, 0.24243, 0.09857], norm: 0.4298 })).toEqual([
    "[\u22120.341, 0.2424, 0.09857]",
    "[\u22120.341, 0.242, 0.0986]",
    "[\u22120.34, 0.24, 0.099]",
    "\u20160.4298\u2016",
    "\u20160.43\u2016",
  ]);
  expect(fewOf({ values: [1, 2, 3], norm: 3.5 })).toEqual([
    "[1, 2, 3]",
    "\u20163.5\u2016",
    "\u20163.5\u2016",
  ]);
  expect(fewOf({ values: [0.123456, 1, 2, 3], norm: 4 })[1]).toContain("\u2016");
  expect(fewOf({ values: [0.123456, "nan"], norm: "nan" })[1]).toContain("\u2016");
});
