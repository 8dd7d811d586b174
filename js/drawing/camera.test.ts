// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { fakeBrowser } from "../testing/browser";
import { svgElement } from "../ui/dom";
import { Camera } from "./camera";

beforeEach(() => {
  fakeBrowser();
  vi.stubGlobal("matchMedia", () => ({ matches: false })); // motion is wanted here
});

afterEach(() => vi.unstubAllGlobals());

function standing(): Camera {
  const svg = svgElement("svg", {}) as SVGSVGElement;
  const camera = new Camera(svg, document.createElement("div"), {
    moved: () => undefined,
    wheelIgnored: () => undefined,
  });
  camera.resize({ width: 500, height: 4000 }, { width: 500, height: 400 });
  camera.go({ k: 1, x: 0, y: 0 }, false);
  return camera;
}

it("aims at where it is going, also before it has got there", async () => {
  const camera = standing();
  expect(camera.aim).toEqual({ k: 1, x: 0, y: 0 });
  const end = { k: 1, x: 0, y: -3000 };
  camera.go(end);
  expect(camera.aim).toEqual(end);
  expect(camera.view).toEqual({ k: 1, x: 0, y: 0 });
  await vi.waitFor(() => expect(camera.view).toEqual(end));
  expect(camera.aim).toBe(camera.view);
});

it("turns back when it is sent elsewhere on its way", async () => {
  const camera = standing();
  camera.go({ k: 1, x: 0, y: -3000 });
  camera.go({ k: 1, x: 0, y: -10 });
  await vi.waitFor(() => expect(camera.view).toEqual({ k: 1, x: 0, y: -10 }));
});
