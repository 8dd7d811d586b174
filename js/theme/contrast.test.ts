import { describe, expect, it } from "vitest";
import { KINDS } from "../colours/colouring";
import { STEPS } from "../colours/scale";
import { TINTS } from "./colours";
import { THEMES } from "./styles";

/** The level AA of WCAG 2.2: for text, and for marks that carry meaning. */
const TEXT = 4.5;
const MARK = 3;

const SURFACES = ["ground", "stage"] as const;

/** Colours of text, each with the surfaces that it is written on. */
const TEXTS: [string, readonly string[]][] = [
  ["text", [...SURFACES, "raised", "sunken", "op", "root", "grad-soft"]],
  ["dim", [...SURFACES, "raised", "sunken", "op", "root", "grad-soft"]],
  ["name", [...SURFACES, "op", "grad-soft"]],
  ["accent", SURFACES],
  ["leaf-text", ["leaf"]],
  ["root-text", ["root-rule"]],
  ["grad", SURFACES],
  ["grad-text", ["grad"]],
  ["grad-strong", ["grad-soft"]],
  ["freed", [...SURFACES, "op", "grad-soft"]],
  ["alarm", [...SURFACES, "alarm-soft"]],
  ["alarm-soft", ["alarm"]],
  ["hit-text", ["hit"]],
  ["cut", SURFACES],
];

/** Colours of lines and shapes, each with what lies next to them. */
const MARKS: [string, readonly string[]][] = [
  ["grad", [...SURFACES, "grad-soft", "op", "root", "leaf"]],
  ["track", ["ground"]],
  // The end of a bar.
  ["dim", ["op"]],
  ["edge", ["stage"]],
  ["op-rule", ["stage", "op"]],
  ["leaf-rule", ["stage"]],
  ["root-rule", ["stage", "root"]],
  ["accent", ["stage"]],
  ["alarm", SURFACES],
  ["cut", ["stage"]],
];

describe.each(["light", "dark"] as const)("in the %s theme", (name) => {
  const theme = THEMES[name];
  const pairs = (rows: typeof TEXTS) =>
    rows.flatMap(([front, backs]) => backs.map((back) => [front, back] as const));

  it.each(pairs(TEXTS))("the text colour %s can be read on %s", (front, back) => {
    expect(contrast(theme[front], theme[back])).toBeGreaterThanOrEqual(TEXT);
  });

  it.each(pairs(MARKS))("the mark colour %s can be seen on %s", (front, back) => {
    expect(contrast(theme[front], theme[back])).toBeGreaterThanOrEqual(MARK);
  });
});

describe("colours that say something", () => {
  const tints = Object.entries(TINTS).filter(([, [tint]]) => tint.startsWith("#"));

  it("are as many as there are classes", () => {
    const names = [
      ...Array.from({ length: STEPS }, (_, i) => `is-c${i}`),
      ...Array.from({ length: KINDS }, (_, i) => `is-k${i}`),
    ];
    expect(tints.map(([name]) => name).sort()).toEqual(names.sort());
  });

  it.each(tints)("%s carries text that can be read", (_, [tint, ink]) => {
    expect(contrast(tint, ink)).toBeGreaterThanOrEqual(TEXT);
  });

  it("get brighter step by step, so that hue does not matter", () => {
    for (let i = 1; i < STEPS; i++) {
      const [darker, brighter] = [i - 1, i].map((step) => TINTS[`is-c${step}`][0]);
      expect(luminance(brighter)).toBeGreaterThan(luminance(darker));
      expect([i, contrast(darker, brighter) > 1.15]).toEqual([i, true]);
    }
  });
});

it("measures contrast as WCAG does", () => {
  expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 5);
  expect(contrast("#777777", "#ffffff")).toBeCloseTo(4.48, 2);
  expect(contrast("#336699", "#336699")).toBe(1);
});

function contrast(one: string, other: string): number {
  const [darker, lighter] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (lighter + 0.05) / (darker + 0.05);
}

/** Relative luminance of "#rrggbb", 0 to 1. */
function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
