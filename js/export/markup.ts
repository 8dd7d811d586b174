import type { Part } from "../paint/parts";
import { Cascade, type Style } from "./cascade";
import type { Styled } from "./selector";

export type Theme = "light" | "dark" | "auto";

/** Writes parts as SVG text, each with a class that stands for how the style sheets show it. */
export class MarkupWriter {
  private readonly cascades: [Cascade, Cascade | null];
  private readonly root: Styled;
  /** Per distinct look in each theme, its class name. */
  private readonly names = new Map<string, string>();
  private readonly looks: [string, string][] = [];
  private readonly known = new Map<string, string | null>();

  constructor(css: string, theme: Theme, fonts: Readonly<Record<string, string>>) {
    const root = (shown: string): Styled => ({
      tag: "svg",
      classes: new Set(["gradwalk"]),
      attributes: { "data-theme": shown },
      parent: null,
    });
    const cascade = (shown: string) => new Cascade(css, root(shown), fonts);
    this.root = root("light");
    this.cascades = theme === "auto" ? [cascade("light"), cascade("dark")] : [cascade(theme), null];
  }

  write(parts: readonly Part[]): string {
    return parts.map((one) => this.writePart(one, this.root, "")).join("");
  }

  /** The rules for the classes written so far, all below `scope`. */
  rules(scope: string): string {
    const rule = (css: string, i: number) => (css === "" ? "" : `.${scope} .${nameAt(i)}{${css}}`);
    const first = this.looks.map(([css], i) => rule(css, i)).join("");
    if (this.cascades[1] === null) return first;
    const dark = this.looks
      .map(([css, other], i) => (css === other ? "" : rule(other, i)))
      .join("");
    return `${first}@media (prefers-color-scheme:dark){${dark}}`;
  }

  private writePart({ tag, attributes, content }: Part, parent: Styled, path: string): string {
    const { class: classes = "", ...rest } = attributes;
    const here = `${path}/${tag}.${classes}`;
    const element: Styled = {
      tag,
      attributes,
      classes: new Set(String(classes).split(" ")),
      parent,
    };
    const name = this.nameOf(element, here);
    if (name === null) return "";
    let text = `<${tag}`;
    if (name !== "") text += ` class="${name}"`;
    for (const [key, value] of Object.entries(rest)) text += ` ${key}="${attributeText(value)}"`;
    const inside =
      typeof content === "string"
        ? escapeText(content)
        : content.map((one) => this.writePart(one, element, here)).join("");
    return inside === "" ? `${text}/>` : `${text}>${inside}</${tag}>`;
  }

  /** The class for how an element looks, "" for none and null when it is not shown. */
  private nameOf(element: Styled, path: string): string | null {
    let name = this.known.get(path);
    if (name === undefined) {
      name = this.findName(element);
      this.known.set(path, name);
    }
    return name;
  }

  private findName(element: Styled): string | null {
    const [first, second] = this.cascades;
    const style = first.styleOf(element);
    if (style.display === "none") return null;
    const look = cssOf(style);
    const other = second === null ? look : cssOf(second.styleOf(element));
    if (look === "" && other === "") return "";
    const key = `${look}|${other}`;
    let name = this.names.get(key);
    if (name === undefined) {
      name = nameAt(this.looks.length);
      this.looks.push([look, other]);
      this.names.set(key, name);
    }
    return name;
  }
}

/** a, b, ... z, a1, b1, ... */
function nameAt(index: number): string {
  const letter = String.fromCharCode(97 + (index % 26));
  return index < 26 ? letter : `${letter}${Math.floor(index / 26)}`;
}

function cssOf(style: Style): string {
  return Object.entries(style)
    .filter(([name]) => name !== "display")
    .map(([name, value]) => `${name}:${value}`)
    .join(";");
}

/** Numbers to a hundredth of a pixel: more would not be seen. */
function attributeText(value: string | number): string {
  return typeof value === "number" ? String(Math.round(value * 100) / 100) : escapeText(value);
}

/** User text as text of an XML document: nothing of it is markup, and nothing of it is forbidden there. */
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
