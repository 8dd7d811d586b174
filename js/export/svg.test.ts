import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { bestDirection, firstScene, fittingFolding } from "../arrange/first_view";
import { foldedScene } from "../arrange/pipeline";
import { tileGrads } from "../colours/tile_grads";
import { MODELS } from "../demo/models";
import { groupedGraph } from "../fold/grouped_graph";
import { part } from "../paint/parts";
import { roomOfWidth } from "../scene/views";
import { recordingOf } from "../steps/recording";
import { fakeRun } from "../testing/fake_run";
import { residualNet } from "../testing/residual";
import { STILL_FONTS, tableMeasure } from "../text/metrics";
import { escapeText, MarkupWriter } from "./markup";
import { svg } from "./svg";

/** Models small enough to be drawn three times. */
const SMALL = Object.keys(MODELS).filter((name) => MODELS[name]().nodes.length < 1000);

describe("a halo", () => {
  it("is left out, where it would be drawn over the letters", () => {
    const writer = new MarkupWriter("light", STILL_FONTS);
    const title = part("text", { class: "gw-text" }, "net");
    writer.write([part("g", { class: "gw-frame-head" }, [title])]);
    expect(writer.rules("x")).toMatch(/fill:#1c2128;.*stroke:none/);
    expect(writer.rules("x")).not.toContain("paint-order");
  });
});

describe("svg", () => {
  it.each(SMALL)("draws %s as a document that an XML parser takes", (name) => {
    const graph = MODELS[name]();
    for (const theme of ["light", "dark", "auto"] as const) {
      const text = svg(graph, { theme, whole: true });
      expect(text).not.toMatch(/var\(|NaN|undefined|Infinity/);
      expect(balanced(text)).toBe(true);
      expect(text).toContain(theme === "dark" ? "fill:#131518" : "fill:#fbfbfc"); // the ground
    }
  });

  it("draws an overview of a large graph unless it is asked for the whole", () => {
    const sizes = SMALL.map((name) => MODELS[name]().nodes.length);
    const graph = MODELS[SMALL[sizes.indexOf(Math.max(...sizes))]]();
    expect(svg(graph, { whole: true }).length).toBeGreaterThan(svg(graph, {}).length);
  });
});

it("has the form of a widget in a page of its width", () => {
  const graph = residualNet(["identity", "gate", "identity", "identity"]);
  const places = (text: string) => text.match(/role="img" transform/g)?.length;
  for (const width of [500, 800, 1400]) {
    const room = roomOfWidth(width - 34, graph);
    const direction = bestDirection(graph, room, tableMeasure);
    const { nodes } = firstScene(graph, direction, tableMeasure, false, room);
    expect(places(svg(graph, { width }))).toBe(nodes.length);
  }
});

describe("svg of a model after backward", () => {
  const graph = residualNet(["identity", "gate", "identity", "identity"]);
  const { steps, run } = fakeRun(graph, "fine");
  const drawn = (cursor: number) => svg(graph, { steps, run, cursor });

  it("has the norms on its tiles, their colours and what these say", () => {
    const text = drawn(steps.length);
    const folded = groupedGraph(graph);
    const scene = foldedScene(
      folded,
      fittingFolding(folded, "left", tableMeasure, { width: 1200, height: 700 }),
      "left",
      tableMeasure,
    );
    const { tiles } = tileGrads(graph, scene, recordingOf(graph, steps, run), tableMeasure);
    expect(tiles.size).toBeGreaterThan(0);
    for (const { text: norm } of tiles.values()) expect(text).toContain(`>${norm}</text>`);
    // Arial has no "\u2016".
    expect(text).not.toContain("\u2016</text>");
    expect(text).toContain("||grad|| of the parameters");
    expect(balanced(text)).toBe(true);
  });

  it("before any of it arrived has the sizes of the parameters instead", () => {
    const text = drawn(0);
    expect(text).toMatch(/>[\d.]+( K)? params<\/text>/);
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

/** Whether all tags are closed, in order. */
function balanced(text: string): boolean {
  const open: string[] = [];
  for (const [, close, tag, rest] of text.matchAll(/<(\/?)(\w+)([^<>]*)>/g)) {
    if (close) {
      if (open.pop() !== tag) return false;
    } else if (!rest.endsWith("/")) open.push(tag);
  }
  return open.length === 0;
}

it("writes the local derivatives where it is asked to", () => {
  const graph = MODELS["(x + 1 - 2 * x) ** 2"]();
  const { steps, run } = fakeRun(graph, "fine");
  const options = { steps, run, cursor: steps.length };
  const products = (text: string) => text.match(/>[^<]* × [^<]*</g)?.length ?? 0;
  expect(products(svg(graph, { ...options, derivatives: true }))).toBeGreaterThan(
    products(svg(graph, options)),
  );
});
