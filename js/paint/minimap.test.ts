// @vitest-environment jsdom
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MODELS } from "../demo/models";
import { fitView } from "../scene/views";
import { recordingOf } from "../steps/recording";
import { fakeRun } from "../testing/fake_run";
import { sceneOf } from "../testing/scenes";
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
  it("is there only when there is more than is seen, and room", () => {
    expect(shown().minimap.isShown).toBe(true);
    expect(shown(fitView(scene, STAGE)).minimap.isShown).toBe(false);
    expect(shown(undefined, { width: 300, height: 500 }).minimap.isShown).toBe(false);
    expect(shown().minimap.element.getAttribute("aria-hidden")).toBe("true");
  });

  it("makes way for what is selected", () => {
    const node = scene.nodes.find(({ x, y }) => x > 400 && y > 400);
    const place = node ?? scene.nodes[scene.nodes.length - 1];
    const view = { k: 1, x: STAGE.width - 60 - place.x, y: STAGE.height - 40 - place.y };
    const marks = { ...NO_MARKS, selected: place.id };
    expect(shown(view).minimap.element.classList).not.toContain("is-left");
    expect(shown(view, STAGE, marks).minimap.element.classList).toContain("is-left");
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
