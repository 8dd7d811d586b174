/// <reference types="vite/client" />
import { describe, expect, it } from "vitest";

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
  ["edge", ["stage"]],
  ["op-rule", ["stage", "op"]],
  ["leaf-rule", ["stage"]],
  ["root-rule", ["stage", "root"]],
  ["accent", ["stage"]],
  ["alarm", SURFACES],
  ["cut", ["stage"]],
];

const files = import.meta.glob<string>("./*.css", {
  query: "?raw",
  import: "default",
  eager: true,
});
const light = colours(/\.gradwalk \{([^}]*)\}/);
const THEMES = {
  light,
  dark: { ...light, ...colours(/\.gradwalk\[data-theme="dark"\] \{([^}]*)\}/) },
};

describe.each(Object.entries(THEMES))("in the %s theme", (_, theme) => {
  const pairs = (rows: typeof TEXTS) =>
    rows.flatMap(([front, backs]) => backs.map((back) => [front, back] as const));

  it.each(pairs(TEXTS))("the text colour %s can be read on %s", (front, back) => {
    expect(contrast(theme[front], theme[back])).toBeGreaterThanOrEqual(TEXT);
  });

  it.each(pairs(MARKS))("the mark colour %s can be seen on %s", (front, back) => {
    expect(contrast(theme[front], theme[back])).toBeGreaterThanOrEqual(MARK);
  });
});

it("falls back to the light theme", () => {
  for (const [file, rules] of Object.entries(files)) {
    for (const [, name, fallback] of rules.matchAll(/var\(--gw-([\w-]+), (#[0-9a-f]+)\)/g)) {
      if (!(name in light)) continue; // a colour of one part only, defined beside it
      const full = fallback.length === 4 ? fallback.replace(/[0-9a-f]/g, "$&$&") : fallback;
      expect([file, name, full]).toEqual([file, name, light[name]]);
    }
  }
});

it("measures contrast as WCAG does", () => {
  expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 5);
  expect(contrast("#777777", "#ffffff")).toBeCloseTo(4.48, 2);
  expect(contrast("#336699", "#336699")).toBe(1);
});

/** The variables of a rule that are plain colours, by name without "--gw-". */
function colours(rule: RegExp): Record<string, string> {
  const body = rule.exec(files["./theme.css"])?.[1] ?? "";
  const found = body.matchAll(/--gw-([\w-]+):\s*(#[0-9a-f]{6});/g);
  return Object.fromEntries(Array.from(found, ([, name, value]) => [name, value]));
}

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
