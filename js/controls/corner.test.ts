// @vitest-environment jsdom
import { expect, it } from "vitest";
import { MODELS } from "../demo/models";
import { element } from "../dom/element";
import type { Drawing } from "../interact/drawing";
import { fitView, type View } from "../scene/views";
import { sceneOf } from "../testing/scenes";
import { Corner } from "./corner";

const scene = sceneOf(MODELS["h = w * x + b"]());
const stage = { width: 600, height: 400 };
const fit = fitView(scene, stage);
/** A view without any of the picture, so that every corner is free. */
const AWAY: View = { k: 1, x: 5000, y: 5000 };

/**
 * Place a key over a picture seen like this, now and soon. `sizes` are the key's: in one row, in rows, in narrower
 * rows.
 */
function placed(view: View, aim: View, sizes: [number, number][]) {
  const key = element("div", "gw-key", element("i"));
  const viewport = { view, aim, stage };
  const corner = new Corner({ scene, viewport } as unknown as Drawing, [key]);
  const { classList } = corner.element;
  const size = () =>
    sizes[classList.contains("is-tall") ? 2 : classList.contains("is-stacked") ? 1 : 0];
  Object.defineProperty(corner.element, "offsetWidth", { get: () => size()[0] });
  Object.defineProperty(corner.element, "offsetHeight", { get: () => size()[1] });
  corner.place();
  return [...classList].filter((name) => name.startsWith("is-"));
}

it("a key stands below the picture on the left, in one row, where nothing is drawn", () => {
  expect(
    placed(AWAY, AWAY, [
      [200, 20],
      [100, 40],
      [50, 80],
    ]),
  ).toEqual([]);
});

it("is placed by what is seen once the camera has come to rest", () => {
  const [first] = scene.nodes;
  // A node in the key's usual corner.
  const there = { k: 1, x: 40 - first.x, y: stage.height - 30 - first.y };
  expect(
    placed(there, AWAY, [
      [200, 20],
      [200, 20],
      [200, 20],
    ]),
  ).toEqual([]);
  expect(
    placed(AWAY, there, [
      [200, 20],
      [200, 20],
      [200, 20],
    ]),
  ).not.toEqual([]);
});

it("is in as few rows as cover least", () => {
  const wide: [number, number] = [stage.width, stage.height];
  expect(placed(fit, fit, [wide, [1, 1], [1, 1]])).toContain("is-stacked");
  expect(placed(fit, fit, [wide, [1, 1], [1, 1]])).not.toContain("is-tall");
  expect(placed(fit, fit, [wide, wide, [1, 1]])).toEqual(
    expect.arrayContaining(["is-stacked", "is-tall"]),
  );
  expect(placed(fit, fit, [wide, wide, wide])).not.toContain("is-stacked");
});
