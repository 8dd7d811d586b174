// @vitest-environment jsdom
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { MODELS } from "../demo/models";
import { boxOf } from "../scene/find";
import type { Box } from "../scene/grid";
import type { Scene } from "../scene/scene";
import { graphs } from "../testing/graphs";
import { FakePath2D, RecordingPen, type Stroke } from "../testing/pen";
import { plainSceneOf, sceneOf } from "../testing/scenes";
import { paintPicture } from "./canvas_picture";
import { Inks } from "./ink";
import { type Marks, NO_MARKS } from "./marks";
import { withoutHighlights } from "./painting";

const EVERYWHERE = { left: -1e6, top: -1e6, right: 1e6, bottom: 1e6 };

beforeEach(() => {
  vi.stubGlobal("Path2D", FakePath2D);
});

afterEach(() => vi.unstubAllGlobals());

function painted(
  scene: Scene,
  scale: number,
  marks: Partial<Marks> = {},
  box: Box = EVERYWHERE,
  theme: "light" | "dark" = "light",
): Stroke[] {
  const recorder = new RecordingPen();
  const picture = {
    scene,
    marks: { ...NO_MARKS, ...marks },
    inks: new Inks(() => ({ theme, root: null })),
    underlay: document.createElement("g"),
  };
  const place = { k: scale, x: 0, y: 0, ratio: 1 };
  for (const _ of paintPicture(recorder.pen, picture, box, place));
  return recorder.strokes;
}

const words = (strokes: readonly Stroke[]) =>
  strokes.filter(({ kind }) => kind === "text").map(({ text }) => text);

/** The strokes of a node's box. */
function boxesAt(strokes: readonly Stroke[], scene: Scene, index: number, scale: number): Stroke[] {
  const { left, top, right, bottom } = boxOf(scene.nodes[index]);
  return strokes.filter(({ box }) =>
    [left, top, right, bottom].every((side, i) => Math.abs(side * scale - box[i]) < 0.01),
  );
}

describe("near, the canvas", () => {
  it("writes every text of every node and edge, and no other", () => {
    const scene = sceneOf(MODELS["h = w * x + b"]());
    const texts = scene.nodes.flatMap(({ shape }) => [
      ...shape.texts.map(({ text }) => text),
      ...shape.stubs.flatMap(({ argument, rest }) => [argument, rest]),
    ]);
    const labels = scene.edges.flatMap(({ label }) => label?.text ?? []);
    expect(words(painted(scene, 1)).sort()).toEqual([...texts, ...labels].sort());
  });

  it("draws each kind of node in its colours of each theme", () => {
    const scene = plainSceneOf(MODELS["h = w * x + b"]());
    for (const [theme, leaf, op] of [
      ["light", "#fff3da", "#ffffff"],
      ["dark", "#362a12", "#22262c"],
    ] as const) {
      const strokes = painted(scene, 1, {}, EVERYWHERE, theme);
      for (const { index, leaf: isLeaf, root } of scene.nodes) {
        const [fill] = boxesAt(strokes, scene, index, 1).filter(({ kind }) => kind === "fill");
        if (!root) expect(fill.colour).toBe(isLeaf ? leaf : op);
      }
    }
  });

  it("draws lines to constants and cuts as the style sheets say, cuts without heads", () => {
    const scene = sceneOf(MODELS["w * x.detach() + c * x + b"]());
    const flowed = new Set(scene.edges.map(({ index }) => index));
    const strokes = painted(scene, 1, { ran: true, flowed });
    const dashed = strokes.filter(({ dash, data }) => dash.length > 0 && data.includes("C"));
    expect(dashed).toHaveLength(scene.edges.filter(({ quiet }) => quiet === "cut").length);
    expect(dashed.every(({ colour, dash }) => colour === "#a1365a" && dash[0] === 5)).toBe(true);
    const heads = strokes.filter(({ data }) => /^M[^CHV]*Z$/.test(data) && data.includes("L"));
    expect(heads).toHaveLength(scene.edges.filter(({ quiet }) => quiet !== "cut").length);
  });

  it("shows what backward reached, and dims what a search did not find", () => {
    const scene = sceneOf(MODELS["h = w * x + b"]());
    const ran = painted(scene, 1, {
      ran: true,
      reached: new Set([0, 1, 2]),
      flowed: new Set([0]),
    });
    const green = ran.filter(({ colour, kind }) => kind === "stroke" && colour === "#0f7b55");
    expect(green).toHaveLength(1);
    for (const { index, id } of scene.nodes) {
      const outline = boxesAt(ran, scene, index, 1).find(({ kind }) => kind === "stroke");
      expect(outline?.dash.length).toBe([0, 1, 2].includes(id) ? 0 : 2);
    }
    const found = painted(scene, 1, { hits: new Set([1]) });
    for (const { index, id } of scene.nodes)
      for (const { opacity } of boxesAt(found, scene, index, 1))
        expect(opacity).toBe(id === 1 ? 1 : 0.3);
  });
});

describe("from afar, the canvas", () => {
  it("draws a box for each node in view and none for others, at every scale", () => {
    fc.assert(
      fc.property(
        graphs,
        fc.double({ min: 0.01, max: 0.19, noNaN: true }),
        fc.tuple(fc.nat(100), fc.nat(100), fc.nat(100), fc.nat(100)),
        (graph, scale, [x, y, width, height]) => {
          const scene = sceneOf(graph);
          const left = (x / 100) * scene.width;
          const top = (y / 100) * scene.height;
          const right = left + (width / 100) * scene.width;
          const bottom = top + (height / 100) * scene.height;
          const strokes = painted(scene, scale, {}, { left, top, right, bottom });
          const shown = strokes.filter(({ kind, pieces }) => kind === "fill" && pieces === 1);
          for (const node of scene.nodes) {
            const w = node.shape.outerWidth / 2;
            const h = node.shape.outerHeight / 2;
            // Boxes are kept with 24 bits: what touches the view's edge by less may be left out.
            const isIn =
              node.x - w < right - 0.01 &&
              node.x + w > left + 0.01 &&
              node.y - h < bottom - 0.01 &&
              node.y + h > top + 0.01;
            const isDrawn = shown.some(
              ({ box }) =>
                Math.abs((box[0] + box[2]) / 2 - node.x * scale) < 0.01 &&
                Math.abs((box[1] + box[3]) / 2 - node.y * scale) < 0.01,
            );
            if (isIn) expect(isDrawn).toBe(true);
            const isOff =
              node.x - w > right + 1 ||
              node.x + w < left - 1 ||
              node.y - h > bottom + 1 ||
              node.y + h < top - 1;
            if (isOff) expect(isDrawn).toBe(false);
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  it("writes nothing, and keeps every node large enough to be seen", () => {
    const scene = sceneOf(MODELS["RNN, 40 steps"]());
    const strokes = painted(scene, 0.01);
    expect(words(strokes)).toEqual([]);
    const fills = strokes.filter(({ kind }) => kind === "fill");
    expect(fills.length).toBeGreaterThanOrEqual(scene.nodes.length);
    for (const { box } of fills) expect(box[2] - box[0]).toBeGreaterThan(1);
  });

  it("draws all lines that look alike at once, in the colour of what flowed", () => {
    const scene = sceneOf(MODELS["h = w * x + b"]());
    const lines = (marks: Partial<Marks>) =>
      painted(scene, 0.1, marks).filter(({ width, kind }) => kind === "stroke" && width > 0.51);
    expect(lines({})).toHaveLength(1);
    const flowed = lines({ ran: true, reached: new Set([0]), flowed: new Set([0]) });
    expect(flowed.map(({ colour }) => colour)).toContain("#0f7b55");
    expect(flowed.find(({ colour }) => colour === "#0f7b55")?.width).toBeCloseTo(0.8);
  });

  it("colours boxes by what colours them, without outlines when those would be all that is seen", () => {
    const scene = sceneOf(MODELS["h = w * x + b"]());
    const tint = {
      nodes: scene.nodes.map(() => "is-c-none"),
      edges: scene.edges.map(() => ""),
      words: () => null,
    };
    const strokes = painted(scene, 0.05, { tint });
    expect(strokes.filter(({ kind, pieces }) => kind === "stroke" && pieces === 1)).toEqual([]);
  });

  it("marks what is wrong with gradients", () => {
    const scene = sceneOf(MODELS["h = w * x + b"]());
    const strokes = painted(scene, 0.05, { alarms: new Map([[2, "NaN"]]) });
    const alarms = strokes.filter(({ colour }) => colour === "#b42318");
    expect(alarms).toHaveLength(1);
    expect(alarms[0].box[2] - alarms[0].box[0]).toBe(4);
  });
});

it("leaves to the elements above it what changes with the pointer", () => {
  const marks = { ...NO_MARKS, selected: 1, hovered: 2, focused: 0, hit: 1 };
  const scene = sceneOf(MODELS["h = w * x + b"]());
  expect(painted(scene, 1, withoutHighlights(marks))).toEqual(painted(scene, 1));
  expect(painted(scene, 1, marks)).not.toEqual(painted(scene, 1));
});

it("draws the paths that others put below the picture, however the view is scaled", () => {
  const scene = sceneOf(MODELS["h = w * x + b"]());
  const underlay = document.createElementNS("http://www.w3.org/2000/svg", "g");
  underlay.innerHTML = '<path class="gw-only-ground" d="M0,0h5" />';
  const recorder = new RecordingPen();
  const picture = {
    scene,
    marks: NO_MARKS,
    inks: new Inks(() => ({ theme: "light", root: null })),
    underlay,
  };
  for (const _ of paintPicture(recorder.pen, picture, EVERYWHERE, {
    k: 0.1,
    x: 0,
    y: 0,
    ratio: 1,
  }));
  expect(recorder.strokes[0]).toMatchObject({ data: "M0,0h5", colour: "#fbdff1" });
});
