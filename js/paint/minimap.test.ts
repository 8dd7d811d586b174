// @vitest-environment jsdom
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { Builder } from "../demo/build_graph";
import { MODELS } from "../demo/models";
import { boxOf } from "../scene/find";
import { overlap } from "../scene/grid";
import { fitView, LEGIBLE, seenBox, type View } from "../scene/views";
import { recordingOf } from "../steps/recording";
import { fakeRun } from "../testing/fake_run";
import { sceneOf } from "../testing/scenes";
import { mapScale } from "./level_of_detail";
import { NO_MARKS } from "./marks";
import { dotsOf, Minimap, windowIn } from "./minimap";

const STAGE = { width: 800, height: 500 };
const graph = MODELS["RNN, 40 steps"]();
const scene = sceneOf(graph);

function shown(view = { k: 1, x: 0, y: 0 }, stage = STAGE, marks = NO_MARKS) {
  const went: [number, number][] = [];
  const minimap = new Minimap((x, y) => went.push([x, y]));
  minimap.place(scene, marks, view, stage);
  return { minimap, went };
}

describe("the minimap", () => {
  it("is there only when there is much more than is seen, and room", () => {
    expect(shown().minimap.isShown).toBe(true);
    const g = new Builder();
    const board = sceneOf(
      g.graph([g.op("MulBackward0", [], { self: g.leaf("w", []), other: g.leaf("x", []) }), "y"]),
    );
    const { k, x, y } = fitView(board, STAGE);
    const isShownAt = (view: View) => {
      const { minimap } = shown();
      minimap.place(board, NO_MARKS, view, STAGE);
      return minimap.isShown;
    };
    expect(k).toBeGreaterThan(LEGIBLE);
    expect(isShownAt({ k, x: x - 150, y })).toBe(false);
    expect(isShownAt({ k: 4 * k, x: 4 * x, y: 4 * y })).toBe(true);
    expect(shown(fitView(scene, STAGE)).minimap.isShown).toBe(false);
    expect(shown(undefined, { width: 300, height: 500 }).minimap.isShown).toBe(false);
    expect(shown().minimap.element.getAttribute("aria-hidden")).toBe("true");
  });

  it("covers no legible node at rest: it is in a free corner, or there while the view moves", () => {
    vi.useFakeTimers();
    const { minimap } = shown({ k: 1, x: 0, y: 0 });
    const { element } = minimap;
    const size = ["width", "height"].map((side) =>
      Number.parseFloat(element.style[side as "width"]),
    );
    let brief = 0;
    for (let i = 0; i < 40; i++) {
      const view = { k: 1, x: -90 * i, y: -(scene.height * (i % 7)) / 7 };
      minimap.place(scene, NO_MARKS, view, STAGE);
      if (!minimap.isShown) continue;
      expect(element.classList).not.toContain("is-brief");
      vi.advanceTimersByTime(1000);
      brief += element.classList.contains("is-brief") ? 1 : 0;
      if (element.classList.contains("is-brief")) continue;
      const left = element.classList.contains("is-left") ? 10 : STAGE.width - 10 - size[0];
      const top = element.classList.contains("is-top") ? 10 : STAGE.height - 10 - size[1];
      const corner = { left, top, right: left + size[0], bottom: top + size[1] };
      for (const node of scene.nodes)
        expect(overlap(seenBox(view, boxOf(node)), corner)).toBe(false);
    }
    expect(brief).toBeLessThan(40);
    vi.useRealTimers();
  });

  it("makes way for what is selected", () => {
    const node = scene.nodes.find(({ x, y }) => x > 400 && y > 400);
    const place = node ?? scene.nodes[scene.nodes.length - 1];
    const k = mapScale(scene) * 0.9;
    const view = { k, x: STAGE.width - 60 - k * place.x, y: STAGE.height - 40 - k * place.y };
    const marks = { ...NO_MARKS, selected: place.id };
    const { className } = shown(view).minimap.element;
    expect(className).not.toContain("is-brief");
    expect(shown(view, STAGE, marks).minimap.element.className).toMatch(/is-left|is-top/);
  });

  it("takes the view to where it is pressed", () => {
    const { minimap, went } = shown();
    const { element } = minimap;
    const [width, height] = [element.style.width, element.style.height].map(Number.parseFloat);
    const press = (type: string, clientX: number, clientY: number) =>
      element.dispatchEvent(new MouseEvent(type, { clientX, clientY, bubbles: true }));
    press("pointerdown", width / 2, height / 4);
    expect(went).toEqual([[scene.width / 2, scene.height / 4]]);
    press("pointermove", width / 4, height / 2);
    expect(went[1]).toEqual([scene.width / 4, scene.height / 2]);
    press("pointerup", width / 4, height / 2);
    press("pointermove", 0, 0);
    expect(went).toHaveLength(2);
  });
});

it("keeps the window on the map, in the place that is seen", () => {
  const numbers = fc.double({ min: -5000, max: 5000, noNaN: true });
  const sizes = fc.double({ min: 40, max: 168, noNaN: true });
  fc.assert(
    fc.property(
      fc.double({ min: 0.01, max: 4, noNaN: true }),
      numbers,
      numbers,
      sizes,
      sizes,
      (k, x, y, width, height) => {
        const map = { width, height };
        const { left, top, right, bottom } = windowIn(map, scene, { k, x, y }, STAGE);
        for (const [low, high, room] of [
          [left, right, width],
          [top, bottom, height],
        ]) {
          expect(low).toBeGreaterThanOrEqual(0);
          expect(high).toBeLessThanOrEqual(room + 1e-9);
          expect(high - low).toBeGreaterThan(5.9);
        }
        const middle = (STAGE.width / 2 - x) / k / scene.width;
        if (middle > 0 && middle < 1 && right - left < width - 1e-6)
          expect(middle * width).toBeGreaterThanOrEqual(left - 1e-6);
      },
    ),
  );
});

it("marks what to look for, what is wrong last of all", () => {
  const { steps, run } = fakeRun(graph, "nan");
  const recording = recordingOf(graph, steps, run);
  const dots = dotsOf(scene, {
    ...NO_MARKS,
    hits: new Set([3]),
    selected: 5,
    progress: { recording, cursor: 2 },
  });
  const kinds = dots.map(({ colour }) => colour);
  expect([...new Set(kinds)]).toEqual(["hit", "accent", "grad", "alarm"]);
  expect(dots[0]).toMatchObject({ x: scene.nodes[3].x, y: scene.nodes[3].y });
});
