// @vitest-environment jsdom
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { perceptron } from "../demo/deep_models";
import { MODELS } from "../demo/models";
import { firstScene } from "../fold/first_scene";
import { type Marks, NO_MARKS } from "../paint/marks";
import type { Scene } from "../scene/scene";
import { graphs } from "../testing/graphs";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { liveSvg } from "./live";

afterEach(() => {
  document.body.replaceChildren();
  vi.restoreAllMocks();
});

function picture(graph: GraphModel, css = "", marks: Partial<Marks> = {}) {
  const root = document.body.appendChild(document.createElement("div"));
  root.className = "gradwalk";
  const style = document.head.appendChild(document.createElement("style"));
  style.textContent = css;
  const scene = firstScene(graph, "down", estimate, true);
  const still = { scene, marks: { ...NO_MARKS, ...marks }, gradients: [] };
  const file = liveSvg(still, root, "Autograd graph");
  const read = new DOMParser().parseFromString(file.text, "image/svg+xml");
  root.remove();
  style.remove();
  return { scene, file, read };
}

/** Every text that a scene has. */
function words({ nodes, edges, frames = [] }: Scene): string[] {
  return [
    ...nodes.flatMap(({ shape }) => shape.texts.map(({ text }) => text)),
    ...nodes.flatMap(({ shape }) => shape.stubs.map(({ argument, rest }) => argument + rest)),
    ...edges.flatMap(({ label }) => (label ? [label.text] : [])),
    ...frames.map(({ title }) => title),
  ];
}

/** As XML reads it: what it forbids is replaced. */
function readable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML forbids.
  return text.replace(/[\0-\x08\v\f\x0e-\x1f\ufffe\uffff]|\p{Cs}/gu, "\ufffd");
}

describe("a saved picture", () => {
  it.each(["h = w * x + b", "hostile names", "w * x.detach() + c * x + b"])(
    "of %s is XML and has every word that is drawn",
    (name) => {
      const { scene, read } = picture(MODELS[name]());
      expect(read.querySelector("parsererror")).toBeNull();
      const texts = [...read.querySelectorAll("text")].map((text) => text.textContent);
      for (const word of words(scene)) expect(texts).toContain(readable(word));
    },
  );

  it("of any graph does, whatever things are called", () => {
    const odd = fc.constantFrom(
      "\u0000",
      "a\u0008b",
      "\ud800",
      "]]>",
      "<b>",
      "&amp;",
      '"',
      "\uffff",
    );
    fc.assert(
      fc.property(graphs, odd, (graph, name) => {
        const nodes = graph.nodes.map((node) => ({ ...node, name, label: name, op: `${name}!` }));
        const { scene, read } = picture({ ...graph, nodes });
        expect(read.querySelector("parsererror")).toBeNull();
        const texts = [...read.querySelectorAll("text")].map((text) => text.textContent);
        for (const word of words(scene)) expect(texts).toContain(readable(word));
      }),
      { numRuns: 12 },
    );
  });

  it("has the open groups and the looks of the style sheets, without what these hide", () => {
    const css =
      ".gradwalk .gw-box{fill:red}.gw-focus-ring,.gw-run-ring{display:none}.gw-ground{fill:blue}";
    const { read, scene } = picture(perceptron(), css);
    const style = read.querySelector("style")?.textContent ?? "";
    const look = (element: Element | null) =>
      new RegExp(`\\.${element?.getAttribute("class")}\\{([^}]*)\\}`).exec(style)?.[1] ?? "";
    expect(look(read.querySelector("rect"))).toContain("fill:blue");
    expect(style).toContain("fill:red");
    const all = picture(perceptron()).read.querySelectorAll("rect").length;
    const nodes = scene.nodes.length;
    expect(read.querySelectorAll("rect")).toHaveLength(all - 2 * nodes);
    const titles = [...read.querySelectorAll("text")].map((text) => text.textContent);
    expect(titles).toContain("net");
    expect(read.querySelector("title")?.textContent).toBe("Autograd graph");
  });

  it("leaves nothing in the page, also when it fails", () => {
    const root = document.body.appendChild(document.createElement("div"));
    expect(() => liveSvg(null, root, "")).toThrow(/not drawn yet/);
    const scene = firstScene(MODELS["h = w * x + b"](), "down", estimate, true);
    liveSvg({ scene, marks: NO_MARKS, gradients: [] }, root, "");
    expect(root.childElementCount).toBe(0);
  });

  it("writes mixed colours in words that every reader of SVG knows", () => {
    const real = window.getComputedStyle;
    vi.spyOn(window, "getComputedStyle").mockImplementation((element) => {
      const style = real(element);
      return {
        display: style.display,
        getPropertyValue: (name: string) => (name === "fill" ? "color(srgb 1 0.5 0 / 0.9)" : ""),
      } as CSSStyleDeclaration;
    });
    const { file } = picture(MODELS["h = w * x + b"]());
    expect(file.text).toContain("fill:rgb(255,128,0)");
    expect(file.text).not.toContain("color(");
  });
});
