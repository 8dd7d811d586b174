// @vitest-environment jsdom
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { firstScene } from "../arrange/first_view";
import { perceptron } from "../demo/deep_models";
import { MODELS } from "../demo/models";
import { type Marks, NO_MARKS } from "../paint/marks";
import { part } from "../paint/parts";
import type { Scene } from "../scene/scene";
import { graphs } from "../testing/graphs";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { liveSvg } from "./live";
import { FOOTERS } from "./picture";

afterEach(() => {
  document.body.replaceChildren();
});

const PLAIN = { gradients: [], under: [], over: [], label: null };

function picture(graph: GraphModel, theme = "light", marks: Partial<Marks> = {}) {
  const root = document.body.appendChild(document.createElement("div"));
  root.className = "gradwalk";
  root.dataset.theme = theme;
  const scene = firstScene(graph, "down", estimate, true);
  const still = { ...PLAIN, graph, scene, marks: { ...NO_MARKS, ...marks } };
  const file = liveSvg([still], root, "Autograd graph");
  const read = new DOMParser().parseFromString(file.text, "image/svg+xml");
  root.remove();
  return { scene, file, read };
}

/** All texts of a scene. */
function words({ nodes, edges, frames = [] }: Scene): string[] {
  return [
    ...nodes.flatMap(({ shape }) => shape.texts.map(({ text }) => text)),
    ...nodes.flatMap(({ shape }) => shape.stubs.map(({ argument, rest }) => argument + rest)),
    ...edges.flatMap(({ label }) => (label ? [label.text] : [])),
    ...frames.map(({ title }) => title),
  ];
}

/** The text as XML reads it, with forbidden characters replaced. */
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

  it.each([
    ["light", "#fbfbfc", "#ffffff"],
    ["dark", "#131518", "#22262c"],
  ])(
    "has the open groups and the looks of the %s theme, without what these hide",
    (theme, ground, box) => {
      const { read, scene } = picture(perceptron(), theme);
      const style = read.querySelector("style")?.textContent ?? "";
      const look = (element: Element | null) =>
        new RegExp(`\\.${element?.getAttribute("class")}\\{([^}]*)\\}`).exec(style)?.[1] ?? "";
      expect(look(read.querySelector("rect"))).toContain(`fill:${ground}`);
      expect(style).toContain(`fill:${box}`);
      // All rings but one are hidden: of running and selected nodes.
      const shown = read.querySelectorAll("rect").length;
      const selected = picture(perceptron(), theme, { selected: scene.nodes[0].id });
      expect(selected.read.querySelectorAll("rect")).toHaveLength(shown + 1);
      const titles = [...read.querySelectorAll("text")].map((text) => text.textContent);
      expect(titles).toContain("net");
      expect(read.querySelector("title")?.textContent).toBe("Autograd graph");
    },
  );

  it("of several graphs has them side by side, each under its label and with what lies over and under it", () => {
    const root = document.body.appendChild(document.createElement("div"));
    const graph = MODELS["h = w * x + b"]();
    const scene = firstScene(graph, "down", estimate, true);
    const part = (name: string) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", "path");
      element.id = name;
      return element;
    };
    const still = (label: string) => ({
      ...PLAIN,
      graph,
      scene,
      marks: NO_MARKS,
      label,
      under: [part(`under-${label.length}`)],
      over: [part(`over-${label.length}`)],
    });
    const alone = liveSvg([still("one")], root, "");
    const both = liveSvg([still("one"), still("<b>\u0000&")], root, "");
    expect(both.width).toBeGreaterThan(2 * alone.width);
    expect(both.height).toBe(alone.height);
    const read = new DOMParser().parseFromString(both.text, "image/svg+xml");
    expect(read.querySelector("parsererror")).toBeNull();
    const texts = [...read.querySelectorAll("text")].map((text) => text.textContent);
    expect(texts).toEqual(expect.arrayContaining(["one", readable("<b>\u0000&")]));
    for (const name of ["under-3", "over-3", "under-5", "over-5"])
      expect(read.querySelectorAll(`#${name}`)).toHaveLength(1);
    expect(root.childElementCount).toBe(0);
  });

  it("leaves nothing in the page, also when it fails", () => {
    const root = document.body.appendChild(document.createElement("div"));
    expect(() => liveSvg([null], root, "")).toThrow(/not drawn yet/);
    const graph = MODELS["h = w * x + b"]();
    const scene = firstScene(graph, "down", estimate, true);
    liveSvg([{ ...PLAIN, graph, scene, marks: NO_MARKS }], root, "");
    expect(root.childElementCount).toBe(0);
  });

  it("writes mixed colours in words that every reader of SVG knows", () => {
    const graph = MODELS["h = w * x + b"]();
    const tint = {
      nodes: graph.nodes.map(() => "is-c4"),
      edges: graph.edges.map(() => "is-c4"),
      words: () => null,
    };
    const { file } = picture(graph, "light", { tint });
    expect(file.text).toContain("fill:#2b9594");
    expect(file.text).toContain("stroke:rgb(40,123,124)"); // 78 % of #2b9594 and 22 % of #1c2128
    expect(file.text).not.toMatch(/color-mix|var\(/);
  });
});

it("a picture that is coloured has what the colours say below it", () => {
  const root = document.body.appendChild(document.createElement("div"));
  const graph = MODELS["h = w * x + b"]();
  const scene = firstScene(graph, "down", estimate, true);
  const still = { ...PLAIN, graph, scene, marks: NO_MARKS };
  const legend = {
    title: "of the parameters",
    ticks: [{ at: 0.5, text: "0.01" }],
    entries: [{ name: "is-c-zero", text: "all zeros" }],
  };
  const plain = liveSvg([still], root, "");
  const keyed = liveSvg([still], root, "", legend);
  expect(keyed.height).toBeGreaterThan(plain.height);
  const read = new DOMParser().parseFromString(keyed.text, "image/svg+xml");
  const texts = [...read.querySelectorAll("text")].map((text) => text.textContent);
  expect(texts).toEqual(expect.arrayContaining(["of the parameters", "0.01", "all zeros"]));
  const tall = Number(read.querySelector("rect")?.getAttribute("height"));
  expect(tall).toBe(keyed.height);
});

it("a feature draws below the picture, if it is alone", () => {
  const root = document.body.appendChild(document.createElement("div"));
  const graph = MODELS["h = w * x + b"]();
  const scene = firstScene(graph, "down", estimate, true);
  const still = { ...PLAIN, graph, scene, marks: NO_MARKS };
  const plain = liveSvg([still], root, "");
  FOOTERS.push((_, { y }) => ({ parts: [part("text", { y }, "below")], height: 50 }));
  const [alone, both] = [liveSvg([still], root, ""), liveSvg([still, still], root, "")];
  FOOTERS.pop();
  expect(alone.height).toBe(plain.height + 50);
  expect(alone.text).toContain(`y="${plain.height}">below`);
  expect(both.text).not.toContain("below");
});
