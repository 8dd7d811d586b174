/// <reference types="vite/client" />
import { describe, expect, it } from "vitest";
import { KINDS } from "../colours/modules";
import { STEPS } from "../colours/scale";
import css from "./colours.css?raw";

/** Class -> its colour and the colour of text on it, as they stand in the style sheet. */
const tints = new Map(
  [...css.matchAll(/\.is-([ck]\d) \{\s*--gw-tint: (#\w{6});\s*--gw-ink: (#\w{6});/g)].map(
    ([, name, tint, ink]) => [name, { tint, ink }],
  ),
);

/** The relative luminance that WCAG defines. */
function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

describe("colours that say something", () => {
  it("are as many as there are classes", () => {
    const names = [
      ...Array.from({ length: STEPS }, (_, i) => `c${i}`),
      ...Array.from({ length: KINDS }, (_, i) => `k${i}`),
    ];
    expect([...tints.keys()].sort()).toEqual(names.sort());
  });

  it("carry text that can be read", () => {
    for (const [name, { tint, ink }] of tints)
      expect([name, contrast(tint, ink) >= 4.5]).toEqual([name, true]);
  });

  it("get brighter step by step, so that no hue has to be told from another", () => {
    for (let i = 1; i < STEPS; i++) {
      const [a, b] = [i - 1, i].map((step) => tints.get(`c${step}`)?.tint ?? "");
      expect(luminance(b)).toBeGreaterThan(luminance(a));
      expect([i, contrast(a, b) > 1.15]).toEqual([i, true]);
    }
  });
});
