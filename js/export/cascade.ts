import { readSelectors, type Selector, type Styled } from "./selector";

/** What a style sheet says of one element: CSS properties that a still picture has. */
export type Style = Record<string, string>;

interface Rule {
  selector: Selector;
  declarations: [string, string][];
}

const PAINTED = new Set([
  "display",
  "fill",
  "fill-opacity",
  "font-family",
  "font-size",
  "font-style",
  "font-weight",
  "opacity",
  "stroke",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "stroke-opacity",
  "stroke-width",
  "text-anchor",
  "vector-effect",
]);

/**
 * Applies the widget's own style sheet without a browser, so that a still picture looks as the widget does. Knows as
 * much of CSS as our drawing uses: `var()` with the theme's variables, but no media queries.
 */
export class Cascade {
  private readonly rules: Rule[];
  private readonly variables: ReadonlyMap<string, string>;

  /** `replaced` are values of variables that win over the sheet's own. */
  constructor(css: string, root: Styled, replaced: Readonly<Record<string, string>> = {}) {
    this.rules = readRules(css).sort((a, b) => a.selector.specificity - b.selector.specificity);
    const variables = new Map<string, string>();
    for (const { selector, declarations } of this.rules) {
      if (!selector.matches(root)) continue;
      for (const [name, value] of declarations)
        if (name.startsWith("--")) variables.set(name, value);
    }
    for (const [name, value] of Object.entries(replaced)) variables.set(name, value);
    this.variables = variables;
  }

  /** The properties set on the element itself; what is inherited, an SVG's reader inherits. */
  styleOf(element: Styled): Style {
    const style: Style = {};
    let hasHalo = false;
    for (const { selector, declarations } of this.rules) {
      if (!selector.matches(element)) continue;
      for (const [name, value] of declarations) {
        if (name === "font") Object.assign(style, readFont(this.resolve(value)));
        else if (PAINTED.has(name)) style[name] = this.resolve(value);
        else if (name === "paint-order") hasHalo = value.startsWith("stroke");
      }
    }
    // Not every reader of SVG knows of a halo below the letters: they would drown in it.
    if (hasHalo) style.stroke = "none";
    return style;
  }

  private resolve(value: string): string {
    return value.replace(
      /var\((--[-\w]+)(?:,([^()]*))?\)/g,
      (_, name: string, otherwise?: string) => (this.variables.get(name) ?? otherwise ?? "").trim(),
    );
  }
}

/** The flat rules of a sheet, in its order; rules for some media only are left out. */
function readRules(css: string): Rule[] {
  const rules: Rule[] = [];
  const plain = css.replace(/\/\*[\s\S]*?\*\//g, "");
  let at = 0;
  while (at < plain.length) {
    const open = plain.indexOf("{", at);
    if (open < 0) break;
    const head = plain.slice(at, open).trim();
    const close = blockEnd(plain, open);
    if (!head.startsWith("@")) {
      const declarations = readDeclarations(plain.slice(open + 1, close));
      for (const selector of readSelectors(head)) rules.push({ selector, declarations });
    }
    at = close + 1;
  }
  return rules;
}

function blockEnd(css: string, open: number): number {
  let depth = 0;
  for (let i = open; i < css.length; i++) {
    if (css[i] === "{") depth++;
    else if (css[i] === "}" && --depth === 0) return i;
  }
  return css.length;
}

function readDeclarations(block: string): [string, string][] {
  const found: [string, string][] = [];
  for (const declaration of block.split(";")) {
    const colon = declaration.indexOf(":");
    if (colon < 0) continue;
    const name = declaration.slice(0, colon).trim();
    found.push([
      name,
      declaration
        .slice(colon + 1)
        .replace(/\s+/g, " ")
        .trim(),
    ]);
  }
  return found;
}

/** "600 12.5px/1.4 Inter, sans-serif" as properties of its own: not every reader of SVG knows the shorthand. */
function readFont(value: string): Style {
  const found = /^(?:(\d+|bold|normal) )?([\d.]+px)(?: ?\/ ?[\d.]+(?:px)?)? (.+)$/.exec(value);
  if (found === null) return {};
  const [, weight, size, family] = found;
  return {
    "font-weight": weight === "normal" || weight === undefined ? "400" : weight,
    "font-size": size,
    "font-family": family,
  };
}
