import { element } from "../dom/element";
import { MONO, SANS } from "../text/measure";
import { COLOURS, LINE_SHARE, TINTS, tintsLines } from "./colours";
import { placeOf, type Setting } from "./styles";
import { type Look, TABLE } from "./table";

/** Values that name a variable of the style sheet; other values stay as they are. */
const NAMES = new Set(["sans", "mono", "tint", "ink", "tint-line", ...Object.keys(COLOURS)]);

/** The table as a style sheet, with the colours and fonts that the other style sheets use. */
export function sheet(): string {
  const colours = (side: 0 | 1) =>
    Object.entries(COLOURS).map(([name, sides]) => `--gw-${name}:${sides[side]};`);
  const tints = Object.entries(TINTS).map(([name, [tint, ink]]) => {
    const line = tintsLines(name)
      ? `color-mix(in srgb,var(--gw-tint),var(--gw-text) ${100 * LINE_SHARE}%)`
      : "var(--gw-edge)";
    const [area, words] = [tint, ink].map(written);
    return `.gradwalk .${name}{--gw-tint:${area};--gw-ink:${words};--gw-tint-line:${line}}`;
  });
  // No more specific than this, so that the later of two rows holds and the other style sheets win.
  const rows = TABLE.map(
    ([look, ...places]) =>
      `.gradwalk svg :where(${places.map(selectorOf).join()}){${declarations(look)}}`,
  );
  return [
    `.gradwalk{--gw-sans:${SANS};--gw-mono:${MONO};--gw-tint-line:var(--gw-edge);${colours(0).join("")}}`,
    `.gradwalk[data-theme=dark]{${colours(1).join("")}}`,
    ...tints,
    ...rows,
  ].join("\n");
}

/** A tag by its name, a class with a dot. */
function selectorOf(place: string): string {
  const one = (names: string) => (names.includes("-") ? `.${names}` : names);
  return place.split(" ").map(one).join(" ");
}

function declarations(look: Look): string {
  return Object.entries(look)
    .map(([property, value]) => `${property}:${written(value)}`)
    .join(";");
}

function written(value: string): string {
  return NAMES.has(value) ? `var(--gw-${value})` : value;
}

/** The root of all style sheets' rules, with the sheet of the table. */
export function rootElement(
  name = "gradwalk",
  children: HTMLElement | readonly HTMLElement[] = [],
): HTMLElement {
  return element("div", name, [element("style", {}, sheet()), ...[children].flat()]);
}

/** The theme and the surroundings that an element's looks depend on. */
export function settingOf(within: Element): Setting {
  const root = within.closest<HTMLElement>(".gradwalk");
  const theme = root?.dataset.theme === "dark" ? "dark" : "light";
  return { theme, root: placeOf("div", root?.className) };
}
