// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { svgElement } from "../dom/element";
import { eventually, fakeBrowser } from "../testing/browser";
import { Camera } from "./camera";

beforeEach(() => {
  fakeBrowser();
  vi.stubGlobal("matchMedia", () => ({ matches: false })); // motion is wanted here
});

afterEach(() => vi.unstubAllGlobals());

function standing(svg = svgElement("svg", {}) as SVGSVGElement): Camera {
  const canvas = document.createElement("div");
  canvas.tabIndex = 0;
  document.body.append(canvas);
  canvas.focus();
  const camera = new Camera(svg, canvas, {
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
  await eventually(() => expect(camera.view).toEqual(end));
  expect(camera.aim).toBe(camera.view);
});

it("turns back when it is sent elsewhere on its way", async () => {
  const camera = standing();
  camera.go({ k: 1, x: 0, y: -3000 });
  camera.go({ k: 1, x: 0, y: -10 });
  await eventually(() => expect(camera.view).toEqual({ k: 1, x: 0, y: -10 }));
});

it("zooms twice when it is asked again on its way", async () => {
  const camera = standing();
  camera.zoomBy(1.5, [100, 50]);
  camera.zoomBy(1.5, [100, 50]);
  const end = { k: 2.25, x: 100 - 225, y: 50 - 112.5 };
  expect(camera.aim).toEqual(end);
  await eventually(() => expect(camera.view).toEqual(end));
});

it("zooms in where a finger taps twice, as where a mouse clicks twice", async () => {
  for (const kind of ["dblclick", "taps"]) {
    const svg = svgElement("svg", {}) as SVGSVGElement;
    document.body.append(svg);
    const camera = standing(svg);
    const at = { clientX: 100, clientY: 50, target: svg, identifier: 1 };
    if (kind === "dblclick") svg.dispatchEvent(new MouseEvent("dblclick", at));
    else {
      for (const type of ["touchstart", "touchend", "touchstart", "touchend"]) {
        const touches = type === "touchstart" ? [at] : [];
        const event = Object.assign(new Event(type), { touches, changedTouches: [at] });
        svg.dispatchEvent(event);
      }
    }
    await eventually(() => expect(camera.view.k, kind).toBe(2));
    expect(camera.view.x, kind).toBeCloseTo(-100);
    expect(camera.view.y, kind).toBeCloseTo(-50);
    camera.destroy();
  }
});

it("leaves one finger to the page until the graph has been tapped", () => {
  const svg = svgElement("svg", {}) as SVGSVGElement;
  document.body.append(svg);
  const camera = standing(svg);
  const drag = () => {
    for (const [type, clientY] of [
      ["touchstart", 50],
      ["touchmove", 90],
      ["touchend", 90],
    ] as const) {
      const at = { clientX: 100, clientY, target: svg, identifier: 1 };
      const touches = type === "touchend" ? [] : [at];
      svg.dispatchEvent(Object.assign(new Event(type), { touches, changedTouches: [at] }));
    }
    return camera.view.y;
  };
  camera.go({ k: 1, x: 0, y: -3000 }, false);
  const canvas = document.activeElement as HTMLElement;
  canvas.blur();
  expect(drag()).toBe(-3000);
  canvas.focus();
  expect(drag()).toBe(-2960);
});

it("zooms about the pointer by a fifth with each notch of a wheel; without Ctrl only on a full screen", () => {
  const svg = svgElement("svg", {}) as SVGSVGElement;
  document.body.append(svg);
  const camera = standing(svg);
  const canvas = document.activeElement as HTMLElement;
  const turn = (deltaY: number, keys: WheelEventInit = {}) => {
    const { k, x, y } = camera.view;
    const at = { clientX: 250, clientY: 200, cancelable: true };
    const event = new WheelEvent("wheel", { deltaY, ...at, ...keys });
    svg.dispatchEvent(event);
    const now = camera.view;
    expect(now.k * ((250 - x) / k) + now.x).toBeCloseTo(250);
    expect(now.k * ((200 - y) / k) + now.y).toBeCloseTo(200);
    expect(event.defaultPrevented).toBe(now.k !== k); // what does not zoom scrolls the page
    return now.k / k;
  };
  for (const keys of [{ ctrlKey: true }, { metaKey: true }]) {
    expect(turn(-400, keys)).toBeCloseTo(1.2);
    expect(turn(400, keys)).toBeCloseTo(1 / 1.2);
  }
  expect(turn(-120)).toBe(1);
  canvas.classList.add("is-full");
  expect(turn(-120)).toBeCloseTo(2 ** 0.24);
});
