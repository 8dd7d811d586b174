import { listsBy } from "../maps";
import { COLOURS, LINE_SHARE, TINTS, tintsLines } from "./colours";
import { TABLE } from "./table";

export type Theme = "light" | "dark";

/** Font families by what the table calls them. */
export interface Fonts {
  sans: string;
  mono: string;
}

/** The inputs of a look: an element's tag and classes, and its ancestors. */
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

/** The places of the table, from the part outwards, in the table's order. */
const ROWS = TABLE.flatMap(([look, ...places]) =>
  places.map((place) => {
    const path = place.split(" ").reverse();
    return { look, path: path.map((names) => names.split(".")) };
  }),
).map((row, order) => ({ ...row, order }));

/** The rows by the first name of their part. */
const ROWS_OF = listsBy(ROWS, ({ path }) => path[0][0]);

/** The CSS properties of an element from the table, without inherited ones. */
export function lookOf(place: Place, theme: Theme, fonts: Fonts): Record<string, string> {
  const rows = [...place.names]
    .flatMap((name) => ROWS_OF.get(name) ?? [])
    .filter(({ path }) => isAt(place, path))
    .sort((a, b) => a.order - b.order);
  const look: Record<string, string> = Object.assign({}, ...rows.map((row) => row.look));
  const colours = THEMES[theme];
  const own = tintsAt(place, colours);
  for (const [property, value] of Object.entries(look))
    look[property] = own[value] ?? colours[value] ?? fonts[value as keyof Fonts] ?? value;
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

/** The colours of each theme by their names. */
export const THEMES: Readonly<Record<Theme, Readonly<Record<string, string>>>> = {
  light: coloursOf(0),
  dark: coloursOf(1),
};

function coloursOf(side: 0 | 1): Record<string, string> {
  return Object.fromEntries(Object.entries(COLOURS).map(([name, sides]) => [name, sides[side]]));
}

/** The colours of an element's category, or the neutral ones. */
function tintsAt(place: Place, colours: Readonly<Record<string, string>>): Record<string, string> {
  for (let at: Place | null = place; at; at = at.around) {
    for (const name of at.names) {
      if (!Object.hasOwn(TINTS, name)) continue;
      const [tint, ink] = TINTS[name].map((colour) => colours[colour] ?? colour);
      return {
        tint,
        ink,
        "tint-line": tintsLines(name) ? mixed(tint, colours.text) : colours.edge,
      };
    }
  }
  return { tint: "none", ink: colours.text, "tint-line": colours.edge };
}

/** The colour of a tinted line, like CSS's `color-mix`. */
function mixed(tint: string, text: string): string {
  const part = (colour: string, at: number) => Number.parseInt(colour.slice(at, at + 2), 16);
  return `rgb(${[1, 3, 5].map((at) =>
    Math.round((1 - LINE_SHARE) * part(tint, at) + LINE_SHARE * part(text, at)),
  )})`;
}
