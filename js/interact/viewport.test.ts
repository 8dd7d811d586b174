// @vitest-environment jsdom
import { expect, it, vi } from "vitest";
import { svgElement } from "../dom/element";
import type { Scene } from "../scene/scene";
import { eventually, testPage } from "../testing/browser";
import { Viewport } from "./viewport";

testPage();

/** A scene of 900 x 300 px with a node of 100 x 60 px at each end. */
const SCENE = {
  width: 900,
  height: 300,
  direction: "left",
  nodes: [60, 840].map((x, index) => ({
    ...{ id: index, index, x, y: 150 },
    shape: { width: 100, height: 60, outline: 0, outerWidth: 100, outerHeight: 60, card: {} },
  })),
  frames: [],
  drawn: [[0], [1]],
} as unknown as Scene;

function viewport() {
  const svg = svgElement("svg", {}) as SVGSVGElement;
  const canvas = document.createElement("div");
  const made = new Viewport(svg, canvas, { moved() {}, wheelIgnored() {} });
  made.resize({ width: 1000, height: 400 });
  made.first(SCENE);
  return made;
}

it("brings a node out from under what covers it, at the same scale", () => {
  const made = viewport();
  const before = made.view;
  made.cover = 360;
  expect(made.view).toBe(before);
  made.reveal(0);
  expect(made.view).toBe(before);
  made.reveal(1);
  expect(made.view.k).toBe(before.k);
  expect(made.view.k * 890 + made.view.x).toBeLessThanOrEqual(1000 - 360);
});

it("returns when the panel closes, unless the reader has moved the picture", () => {
  const made = viewport();
  const before = made.aim;
  made.cover = 360;
  made.reveal(1);
  expect(made.aim.x).toBeLessThan(before.x);
  made.resize({ width: 1000, height: 400 });
  made.cover = 0;
  expect(made.aim).toEqual(before);
  made.cover = 360;
  made.reveal(1);
  made.zoomBy(1.2);
  const chosen = made.aim;
  made.cover = 0;
  expect(made.aim).toEqual(chosen);
});

it("fills a full screen, without room for a panel, and grows there", () => {
  const made = viewport();
  made.spare = 200;
  made.fit(false);
  const beside = made.view.k;
  made.fill(true);
  expect(made.view.k).toBeCloseTo((1000 - 32) / 900);
  expect(made.view.k).toBeGreaterThan(beside);
  made.resize({ width: 4000, height: 3000 });
  expect(made.view.k).toBe(2.5);
  made.fill(false);
  made.resize({ width: 1000, height: 400 });
  expect(made.view.k).toBe(beside);
});

it("moves a whole picture aside for a panel, at the same scale, and back", async () => {
  const made = viewport();
  made.spare = 100;
  made.look({ k: 0.6, x: 230, y: 110 }, true);
  const right = () => made.aim.k * SCENE.width + made.aim.x;
  made.cover = 360;
  expect([made.aim.k, right()]).toEqual([0.6, 1000 - 360 - 16]);
  expect(made.aim.y).toBe(110);
  await eventually(() => expect(made.isUntouched).toBe(true));
  made.cover = 400;
  expect(right()).toBe(1000 - 400 - 16);
  made.cover = 0;
  expect(made.aim.x).toBe(230);
  made.cover = 360;
  made.look({ k: 0.6, x: 50, y: 20 }, false);
  made.cover = 0;
  expect(made.aim).toEqual({ k: 0.6, x: 50, y: 20 }); // the reader has moved it
  made.look({ k: 0.6, x: 98, y: 20 }, false); // near the panel, but not under it
  made.cover = 360;
  expect(made.aim.x).toBe(98);
});

it("leaves room for a panel from the start where all letters are legible then", () => {
  const made = viewport();
  const scaleBeside = (spare: number) => {
    made.spare = spare;
    made.first(SCENE);
    return made.view.k;
  };
  expect(scaleBeside(200)).toBeCloseTo((1000 - 200 - 32) / 900);
  expect(made.view.x).toBeCloseTo((1000 - made.view.k * 900) / 2); // in the middle all the same
  const [middle] = [made.view.x];
  made.cover = 200;
  expect(made.aim.x).toBeLessThan(middle);
  made.cover = 0;
  expect(scaleBeside(360)).toBeCloseTo((1000 - 32) / 900);
});

it("makes no picture with open boxes smaller than its own size for a panel", () => {
  const made = viewport();
  made.spare = 200;
  const scene = (width: number) => ({ ...SCENE, width, frames: [{}] }) as unknown as Scene;
  made.first(scene(768));
  expect(made.view.k).toBeCloseTo(1);
  made.first(scene(780));
  expect(made.view.k).toBeCloseTo(1.2);
});

it("zooms about a node in sight, else about the middle of what nothing covers", () => {
  const made = viewport();
  const placeOf = (x: number) => made.view.k * x + made.view.x;
  const before = placeOf(60);
  made.zoomBy(1.2, 0);
  expect(made.aim.k * 60 + made.aim.x).toBeCloseTo(before);
  made.look(made.aim, false);
  made.cover = 360;
  const middle = (320 - made.view.x) / made.view.k;
  made.zoomBy(1.2, 1);
  expect(made.aim.k * middle + made.aim.x).toBeCloseTo(320);
});

it("keeps the scale of a first view when a panel has opened or a scroll bar has come", () => {
  const made = viewport();
  const { k } = made.view;
  made.cover = 360;
  made.resize({ width: 985, height: 400 });
  expect(made.view.k).toBe(k);
  expect(made.isUntouched).toBe(true);
  made.resize({ width: 700, height: 400 });
  expect(made.view.k).toBeCloseTo((700 - 32) / 900);
});

it("waits with moves while a second click may come, in their order", () => {
  vi.useFakeTimers();
  const made = viewport();
  const done: number[] = [];
  made.keepStill();
  made.whenQuiet(() => done.push(1));
  made.whenQuiet(() => done.push(2));
  expect(done).toEqual([]);
  vi.advanceTimersByTime(400);
  expect(done).toEqual([1, 2]);
  made.whenQuiet(() => done.push(3));
  expect(done).toEqual([1, 2, 3]);
  vi.useRealTimers();
});

it("fills a full screen with a small picture, and goes back to its largest scale on a page", () => {
  const made = viewport();
  made.resize({ width: 2000, height: 1000 });
  expect(made.view.k).toBe(1.2);
  made.fill(true);
  expect(made.view.k).toBeGreaterThan(2);
  made.fill(false);
  expect(made.view.k).toBe(1.2);
});
