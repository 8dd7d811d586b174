/// <reference types="vite/client" />
// @vitest-environment jsdom
import fc from "fast-check";
import { expect, it } from "vitest";
import { svgElement } from "../dom/element";
import { STILL_FONTS } from "../text/metrics";
import { TINTS } from "./colours";
import { rootElement, sheet } from "./sheet";
import { lookOf, type Place, placeOf, THEMES } from "./styles";
import { TABLE } from "./table";

const PLACES = TABLE.flatMap(([, ...places]) => places);
const TAGS = ["g", "path", "rect", "circle", "text", "tspan"] as const;
const CLASSES = [
  ...new Set(PLACES.flatMap((place) => place.split(/[ .]/)).filter((name) => name.includes("-"))),
];

/** Nested elements, each a tag with classes. */
const chains = fc.array(
  fc.record({
    tag: fc.constantFrom(...TAGS),
    names: fc.uniqueArray(fc.constantFrom(...CLASSES), { maxLength: 4 }),
  }),
  { minLength: 1, maxLength: 3 },
);

/** An element of the table, so that most rows match. */
const given = fc.constantFrom(...PLACES).map((place) =>
  place.split(" ").map((names) => {
    const all = names.split(".");
    const tag = TAGS.find((one) => one === all[0]);
    return { tag: tag ?? "g", names: all.filter((name) => name !== tag) };
  }),
);

/** Apply the style sheet as a browser does: its rules in order, if they match. */
function readSheet(chain: { tag: (typeof TAGS)[number]; names: string[] }[]) {
  const root = rootElement();
  let at: Element = root.appendChild(svgElement("svg"));
  for (const { tag, names } of chain)
    at = at.appendChild(svgElement(tag, { class: names.join(" ") }));
  const found: Record<string, string> = {};
  for (const [, selector, body] of sheet().matchAll(/(\.gradwalk svg :where[^{]*)\{([^}]*)\}/g)) {
    if (!at.matches(selector)) continue;
    for (const one of body.split(";")) {
      const [name, value] = one.split(":");
      found[name] = value;
    }
  }
  return found;
}

it("says to a browser what it says without one, wherever a thing is", () => {
  const colours = THEMES.dark;
  const named = (value: string) => {
    const name = /^var\(--gw-(.*)\)$/.exec(value)?.[1];
    if (name === undefined) return value;
    return colours[name] ?? STILL_FONTS[name as "sans"];
  };
  fc.assert(
    fc.property(fc.oneof(given, chains), (chain) => {
      const place = chain.reduce<Place | null>(
        (around, { tag, names }) => placeOf(tag, names.join(" "), around),
        null,
      ) as Place;
      const looks = lookOf(place, "dark", STILL_FONTS);
      const read = readSheet(chain);
      expect(Object.keys(looks).sort()).toEqual(Object.keys(read).sort());
      for (const [property, value] of Object.entries(read))
        if (!/tint|--gw-ink/.test(value)) expect(looks[property]).toBe(named(value));
    }),
    { numRuns: 400 },
  );
});

it("takes the colours of what a thing says from around it", () => {
  const fillOf = (tint: string) => {
    const node = placeOf("g", `gw-node is-tinted ${tint}`);
    return lookOf(placeOf("rect", "gw-box", node), "light", STILL_FONTS).fill;
  };
  for (const [name, [tint]] of Object.entries(TINTS))
    expect(fillOf(name)).toBe(THEMES.light[tint] ?? tint);
});

it("speaks only of what is drawn", () => {
  const files = import.meta.glob<string>(
    [
      "../{controls,colours,compare,export,features,interact,paint,scene}/**/*.ts",
      "!../**/*.test.ts",
    ],
    { query: "?raw", import: "default", eager: true },
  );
  const drawn = Object.values(files).join("\n");
  // These are written as "gw-${...}", by the kind of a node or a word.
  const made =
    /^(gw|is)-(cut|outside|constant|(text|edge)-\w+|odd|merged|full|near|row|sum|total|w\d)$/;
  const unknown = CLASSES.filter((name) => !made.test(name) && !drawn.includes(name));
  expect(unknown).toEqual([]);
});
