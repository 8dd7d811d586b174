import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DIRECTIONS } from "../layout/direction";
import { MODELS } from "../testing/graphs";
import { sceneOf } from "../testing/scenes";
import {
  centreView,
  firstView,
  fitView,
  isWhole,
  keepInView,
  LARGEST_FIT,
  revealView,
  seen,
} from "./views";

const sizes = fc.record({
  width: fc.integer({ min: 1, max: 90000 }),
  height: fc.integer({ min: 1, max: 90000 }),
});
const stages = fc.record({
  width: fc.integer({ min: 120, max: 2000 }),
  height: fc.integer({ min: 120, max: 1200 }),
});

describe("views", () => {
  it("fit the whole scene and blow nothing up", () => {
    fc.assert(
      fc.property(sizes, stages, (scene, stage) => {
        const view = fitView(scene, stage);
        const { left, top, right, bottom } = seen(view, stage, 0);
        expect(view.k).toBeLessThanOrEqual(LARGEST_FIT);
        expect(left).toBeLessThan(0.01);
        expect(top).toBeLessThan(0.01);
        expect(right).toBeGreaterThan(scene.width - 0.01);
        expect(bottom).toBeGreaterThan(scene.height - 0.01);
      }),
    );
  });

  it("start with the whole graph", () => {
    const stage = { width: 700, height: 420 };
    for (const direction of DIRECTIONS) {
      const scene = sceneOf(MODELS["RNN, 40 steps"](), direction);
      expect(isWhole(scene, firstView(scene, stage), stage)).toBe(true);
    }
  });

  it("reveal a box with no more movement than needed", () => {
    const stage = { width: 800, height: 400 };
    const view = { k: 1, x: 0, y: 0 };
    expect(revealView(view, { left: 100, top: 100, right: 200, bottom: 150 }, stage)).toBe(view);
    expect(revealView(view, { left: 900, top: 100, right: 1000, bottom: 150 }, stage)).toEqual({
      k: 1,
      x: -216,
      y: 0,
    });
    expect(centreView({ k: 0.1, x: 0, y: 0 }, { x: 500, y: 500 }, stage).k).toBeGreaterThan(0.5);
  });

  it("keep some of the scene in view wherever it is dragged", () => {
    fc.assert(
      fc.property(sizes, stages, fc.integer(), fc.integer(), (scene, stage, x, y) => {
        const view = keepInView({ k: 1, x, y }, scene, stage);
        expect(view.x).toBeLessThan(stage.width);
        expect(view.x + scene.width).toBeGreaterThan(0);
        expect(view.y + scene.height).toBeGreaterThan(0);
        expect(keepInView(view, scene, stage)).toEqual(view);
      }),
    );
  });
});
