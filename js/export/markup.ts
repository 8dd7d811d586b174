import { valueAt } from "../maps";
import type { Part } from "../paint/parts";
import { type Fonts, lookOf, type Place, placeOf, type Theme } from "../theme/styles";

/** "auto" follows the page. */
export type StillTheme = Theme | "auto";

/** Write parts as SVG text. Each has a class for its look in the theme's table. */
export class MarkupWriter {
  private readonly themes: readonly Theme[];
  /** Each look's class name. */
  private readonly names = new Map<string, string>();
  private readonly rulesOfLooks: [string, string][] = [];
  private readonly known = new Map<string, string | null>();

  constructor(
    theme: StillTheme,
    private readonly fonts: Fonts,
    private readonly root: Place | null = null,
  ) {
    this.themes = theme === "auto" ? ["light", "dark"] : [theme];
  }

  write(parts: readonly Part[]): string {
    return parts.map((one) => this.writePart(one, this.root, "")).join("");
  }

  /** The CSS rules of the classes so far, within `scope`. */
  rules(scope: string): string {
    const rule = (css: string, i: number) => (css === "" ? "" : `.${scope} .${nameAt(i)}{${css}}`);
    const first = this.rulesOfLooks.map(([css], i) => rule(css, i)).join("");
    if (this.themes.length === 1) return first;
    const dark = this.rulesOfLooks
      .map(([css, other], i) => (css === other ? "" : rule(other, i)))
      .join("");
    return `${first}@media (prefers-color-scheme:dark){${dark}}`;
  }

  /** The text of a file with these parts. The title and the note are for screen readers. */
  file(
    parts: readonly Part[],
    { x, y, width, height }: { x: number; y: number; width: number; height: number },
    title: string,
    note = "",
  ): string {
    const body = this.write(parts);
    // Pictures in one page share class names, so each set of rules has its own scope.
    const scope = `gw-${hash(this.rules("gw"))}`;
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" class="${scope}" role="group" width="${width}" height="${height}" ` +
      `viewBox="${x} ${y} ${width} ${height}"><title>${escapeText(title)}</title>` +
      `<desc>${escapeText(note)}</desc><style>${this.rules(scope)}</style>${body}</svg>\n`
    );
  }

  private writePart(
    { tag, attributes, content }: Part,
    around: Place | null,
    path: string,
  ): string {
    const { class: classes = "", ...rest } = attributes;
    const here = `${path}/${tag}.${classes}`;
    const place = placeOf(tag, classes, around);
    const name = valueAt(this.known, here, () => this.nameOf(place));
    if (name === null) return "";
    let text = `<${tag}`;
    if (name !== "") text += ` class="${name}"`;
    for (const [key, value] of Object.entries(rest)) text += ` ${key}="${attributeText(value)}"`;
    const inside =
      typeof content === "string"
        ? escapeText(tag === "text" || tag === "tspan" ? inCommonLetters(content) : content)
        : content.map((one) => this.writePart(one, place, here)).join("");
    return inside === "" ? `${text}/>` : `${text}>${inside}</${tag}>`;
  }

  /** The class of a part's look: "" for none, null if it is hidden. */
  private nameOf(place: Place): string | null {
    const [look, other = look] = this.themes.map((theme) =>
      cssOf(lookOf(place, theme, this.fonts)),
    );
    if (look === null || other === null) return null;
    if (look === "" && other === "") return "";
    return valueAt(this.names, `${look}|${other}`, () =>
      nameAt(this.rulesOfLooks.push([look, other]) - 1),
    );
  }
}

function hash(text: string): string {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return (value >>> 0).toString(36);
}

/** a, b, ... z, a1, b1, ... */
function nameAt(index: number): string {
  const letter = String.fromCharCode(97 + (index % 26));
  return index < 26 ? letter : `${letter}${Math.floor(index / 26)}`;
}

/** A look as a CSS rule; null if it is hidden. */
function cssOf(look: Readonly<Record<string, string>>): string | null {
  const {
    display,
    "paint-order": halo,
    "text-rendering": _,
    ...rest
  }: Record<string, string> = look;
  if (display === "none") return null;
  // Readers without `paint-order` would draw the halo over the letters.
  if (halo) rest.stroke = "none";
  return Object.entries(rest)
    .map(([name, value]) => `${name}:${value}`)
    .join(";");
}

/** Round to a hundredth of a pixel. */
function attributeText(value: string | number): string {
  return typeof value === "number" ? String(Math.round(value * 100) / 100) : escapeText(value);
}

/** The sign of a norm as two bars: Arial lacks it, and some readers then draw the whole text in another font. */
function inCommonLetters(text: string): string {
  return text.replaceAll("\u2016", "||");
}

/** Escape user text for XML: no markup, no forbidden characters. */
export function escapeText(text: string): string {
  return (
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML forbids.
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
      .replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")
      .replace(/&/g, "&amp;")
      .replace(/</g, "&lt;")
      .replace(/>/g, "&gt;")
      .replace(/"/g, "&quot;")
  );
}
