import { COLOURS, LINE_SHARE, TINTS, tintsLines } from "./colours";
import { TABLE } from "./table";

export type Theme = "light" | "dark";

/** Font families by what the table calls them. */
export interface Fonts {
  sans: string;
  mono: string;
}

/** What a look depends on: a thing's tag and classes, and what it is in. */
export interface Place {
  names: ReadonlySet<string>;
  around: Place | null;
}

/** Where a picture is shown: in which theme, and inside what. */
export interface Setting {
  theme: Theme;
  root: Place | null;
}

export function placeOf(tag: string, classes: unknown, around: Place | null = null): Place {
  return { names: new Set([tag, ...`${classes ?? ""}`.split(" ")]), around };
}

/** Per place of the table, from the part outwards, the names of each thing. */
const ROWS = TABLE.flatMap(([look, ...places]) =>
  places.map((place) => ({
    look,
    path: place
      .split(" ")
      .reverse()
      .map((names) => names.split(".")),
  })),
);

/** The CSS properties that the table gives a thing; what is inherited is not among them. */
export function lookOf(place: Place, theme: Theme, fonts: Fonts): Record<string, string> {
  const look: Record<string, string> = {};
  for (const row of ROWS) if (isAt(place, row.path)) Object.assign(look, row.look);
  const colours = coloursAt(place, theme);
  for (const [property, value] of Object.entries(look))
    look[property] = colours[value] ?? fonts[value as keyof Fonts] ?? value;
  return look;
}

function isAt(place: Place, path: readonly (readonly string[])[]): boolean {
  let at: Place | null = place;
  for (const [i, names] of path.entries()) {
    while (at && !names.every((name) => at?.names.has(name))) at = i === 0 ? null : at.around;
    if (!at) return false;
    at = at.around;
  }
  return true;
}

/** The colours of a theme by their names. */
export function themeColours(theme: Theme): Record<string, string> {
  const side = theme === "dark" ? 1 : 0;
  return Object.fromEntries(Object.entries(COLOURS).map(([name, sides]) => [name, sides[side]]));
}

/** Those, and those of what the thing says. */
function coloursAt(place: Place, theme: Theme): Record<string, string> {
  const colours = themeColours(theme);
  for (let at: Place | null = place; at; at = at.around) {
    const name = [...at.names].find((one) => one in TINTS);
    if (name === undefined) continue;
    const [tint, ink] = TINTS[name].map((colour) => colours[colour] ?? colour);
    const line = tintsLines(name) ? mixed(tint, colours.text) : colours.edge;
    return { ...colours, tint, ink, "tint-line": line };
  }
  return { ...colours, tint: "none", ink: colours.text, "tint-line": colours.edge };
}

/** What a tinted line is drawn in, as CSS's `color-mix` would have it. */
function mixed(tint: string, text: string): string {
  const part = (colour: string, at: number) => Number.parseInt(colour.slice(at, at + 2), 16);
  return `rgb(${[1, 3, 5].map((at) =>
    Math.round((1 - LINE_SHARE) * part(tint, at) + LINE_SHARE * part(text, at)),
  )})`;
}
