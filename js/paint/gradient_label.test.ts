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
    const told = Number(text.replaceAll("\u2016", "").replace("\u2212", "-"));
    expect(Math.abs(told - norm)).toBeLessThan(0.05 * norm);
  },
);

test("values come before their norm, and one number has none", () => {
  expect(fewOf({ values: [1, -2], norm: 2.236 })[0]).toBe("[1, \u22122]");
  expect(fewOf({ values: 3, norm: 3 })).toEqual(["3"]);
  expect(fewOf({ values: null, norm: "NaN" }).at(-1)).toContain("NaN");
});
