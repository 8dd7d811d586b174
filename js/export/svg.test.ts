/// <reference types="vite/client" />
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MODELS } from "../demo/models";
import { Cascade } from "./cascade";
import { escapeText } from "./markup";
import { readSelectors, type Styled } from "./selector";
import { svg } from "./svg";

const sheets = import.meta.glob<string>("../styles/{theme,drawing,groups,steps}.css", {
  eager: true,
  query: "?raw",
  import: "default",
});
const css = Object.values(sheets).join("\n");

function element(tag: string, classes: string, parent: Styled | null = null): Styled {
  return { tag, classes: new Set(classes.split(" ")), attributes: {}, parent };
}

const root: Styled = { ...element("svg", "gradwalk"), attributes: { "data-theme": "dark" } };

describe("readSelectors", () => {
  const matches = (text: string, of: Styled) => readSelectors(text).some((one) => one.matches(of));
  const node = element("g", "gw-node gw-op is-done", element("g", "gw-nodes", root));
  const box = element("rect", "gw-box", node);

  it.each([
    [".gw-box", true],
    ["rect", true],
    [".gradwalk .gw-box", true],
    [".gw-nodes > .gw-box", false],
    [".gw-node > .gw-box", true],
    ["circle, .gw-node.is-done .gw-box", true],
    [".gw-node.is-ready .gw-box", false],
    [".gradwalk :is(.is-ready, .is-done) .gw-box", true],
    [".gw-op:where(.is-done,.is-running) .gw-box", true],
    [".gw-op:not(.is-done) .gw-box", false],
    [".gw-box:hover", false],
    [".gw-box::before", false],
    ['.gradwalk[data-theme="dark"] rect', true],
    [".gradwalk[data-theme=light] rect", false],
  ])("%s: %s", (text, expected) => expect(matches(text, box)).toBe(expected));
});

describe("Cascade", () => {
  const box = element("rect", "gw-box", element("g", "gw-node gw-leaf", root));

  it("takes the more specific rule, else the later one", () => {
    const of = (text: string) => new Cascade(text, root).styleOf(box).fill;
    expect(of(".gw-leaf .gw-box{fill:red}.gw-box{fill:blue}")).toBe("red");
    expect(of(".gw-box{fill:red}.gw-box{fill:blue}")).toBe("blue");
    expect(of(".gw-box{fill:red}:where(.gw-leaf.gw-node) rect{fill:blue}")).toBe("red");
  });

  it("resolves the variables of the theme, and what stands in for them", () => {
    const text =
      ".gradwalk{--a:red}.gradwalk[data-theme=dark]{--a:blue}.gw-box{fill:var(--a,x);stroke:var(--b, green)}";
    expect(new Cascade(text, root).styleOf(box)).toEqual({ fill: "blue", stroke: "green" });
    expect(new Cascade(text, root, { "--a": "grey" }).styleOf(box).fill).toBe("grey");
  });

  it("writes the shorthand of fonts out and leaves rules for some media only out", () => {
    const text = "@media print{.gw-box{fill:red}}.gw-box{font:600 12px/1.5 Arial, serif}";
    expect(new Cascade(text, root).styleOf(box)).toEqual({
      "font-weight": "600",
      "font-size": "12px",
      "font-family": "Arial, serif",
    });
  });
});

/** Small enough to be drawn three times over. */
const SMALL = Object.keys(MODELS).filter((name) => MODELS[name]().nodes.length < 1000);

describe("a halo", () => {
  it("is left out, where it would be drawn over the letters", () => {
    const text = ".gw-text{fill:red;stroke:blue;stroke-width:4px;paint-order:stroke}";
    const style = new Cascade(text, root).styleOf(element("text", "gw-text", root));
    expect([style.fill, style.stroke]).toEqual(["red", "none"]);
  });
});

describe("svg", () => {
  it.each(SMALL)("draws %s as a document that an XML parser takes", (name) => {
    const graph = MODELS[name]();
    for (const theme of ["light", "dark", "auto"] as const) {
      const text = svg(graph, { css, theme, whole: true });
      expect(text).not.toMatch(/var\(|NaN|undefined|Infinity/);
      expect(balanced(text)).toBe(true);
      expect(text).toContain(theme === "dark" ? "fill:#131518" : "fill:#fbfbfc"); // the ground
    }
  });

  it("draws an overview of a large graph unless it is asked for the whole", () => {
    const sizes = SMALL.map((name) => MODELS[name]().nodes.length);
    const graph = MODELS[SMALL[sizes.indexOf(Math.max(...sizes))]]();
    expect(svg(graph, { css, whole: true }).length).toBeGreaterThan(svg(graph, { css }).length);
  });
});

describe("escapeText", () => {
  it("leaves no markup and nothing that XML forbids", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const safe = escapeText(text);
        expect(safe).not.toMatch(/[<>"]|&(?!amp;|lt;|gt;|quot;)/);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML forbids.
        expect(safe).not.toMatch(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/);
        expect(() => encodeURIComponent(safe)).not.toThrow(); // it does for half a character
      }),
    );
  });
});

/** Whether every tag that is opened is closed, in order. */
function balanced(text: string): boolean {
  const open: string[] = [];
  for (const [, close, tag, rest] of text.matchAll(/<(\/?)(\w+)([^<>]*)>/g)) {
    if (close) {
      if (open.pop() !== tag) return false;
    } else if (!rest.endsWith("/")) open.push(tag);
  }
  return open.length === 0;
}
