// @vitest-environment jsdom
import { expect, it } from "vitest";
import { localChannel, type Traits } from "../channel";
import { Builder } from "../demo/build_graph";
import { nextFrame, testPage } from "../testing/browser";
import { freshTraits } from "../testing/traits";
import { createView } from "../view";
import type { GraphModel } from "../wire";

const page = testPage(1000, 500);

/** Layers of two parts in a row, under a loss. */
function layers(count: number): GraphModel {
  const g = new Builder();
  g.namespace = "";
  let x = g.op("SinBackward0", [4], { self: g.leaf("x", [4]) });
  for (let i = 0; i < count; i++) {
    g.namespace = `net/layer${i}/first`;
    x = g.op("MulBackward0", [4], { self: x, other: g.leaf(`w${i}`, [4]) });
    for (let j = 0; j < i + 2; j++) x = g.op("TanhBackward0", [4], { self: x });
    g.namespace = `net/layer${i}/second`;
    for (let j = 0; j < i + 2; j++) x = g.op("ExpBackward0", [4], { self: x });
  }
  g.namespace = "";
  return g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
}

async function view(graph: GraphModel, change: Partial<Traits> = {}) {
  const host = document.body.appendChild(document.createElement("div"));
  const channel = localChannel<Traits>(freshTraits(graph, { direction: "left", ...change }));
  page.remove = createView(host, channel);
  const one = <E extends Element = HTMLElement>(selector: string) =>
    host.querySelector<E>(selector) as E;
  const depth = one<HTMLSelectElement>(".gw-depth");
  depth.value = "1";
  depth.dispatchEvent(new Event("change"));
  await nextFrame();
  const fire = async (target: Element, event: Event) => {
    target.dispatchEvent(event);
    await nextFrame();
  };
  const numbers = (text: string | null) => (text?.match(/-?[\d.]+(e-?\d+)?/g) ?? []).map(Number);
  return {
    ...{ channel, one },
    twice: (target: Element) =>
      fire(target, new MouseEvent("dblclick", { bubbles: true, clientX: 500, clientY: 250 })),
    press: (key: string) =>
      fire(
        one(".gw-canvas"),
        new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }),
      ),
    crumbs: () => one(".gw-crumbs").textContent,
    boxes: () => [...host.querySelectorAll<HTMLElement>(".gw-closed")].map((b) => b.dataset.group),
    box: (path: string) => one(`[data-group="${path}"] .gw-box`),
    camera: () => one(".gw-layer").getAttribute("transform"),
    /** The visible left, top, right and bottom of an open box. */
    seen(path: string) {
      const [dx, dy, k] = numbers(one(".gw-layer").getAttribute("transform"));
      const rect = one(`.gw-frames [data-path="${path}"] .gw-frame-box`);
      const [x, y, w, h] = ["x", "y", "width", "height"].map((n) => Number(rect.getAttribute(n)));
      return [k * x + dx, k * y + dy, k * (x + w) + dx, k * (y + h) + dy];
    },
  };
}

const MIDDLE = [500, 250];

it("a double click goes into a box, which then is in the middle; Escape goes back out", async () => {
  const { twice, box, boxes, crumbs, press, seen, camera } = await view(layers(4));
  const before = [boxes(), camera()];
  for (const path of ["net/layer3", "net/layer0", "net/layer2"]) {
    await twice(box(path));
    expect(crumbs()).toBe(`loss›${path.slice(4)}`);
    const [left, top, right, bottom] = seen(path);
    expect((left + right) / 2).toBeCloseTo(MIDDLE[0]);
    expect((top + bottom) / 2).toBeCloseTo(MIDDLE[1]);
    await press("Escape");
    expect([boxes(), camera()]).toEqual(before);
    expect(crumbs()).toBe("loss");
  }
});

it("boxes in boxes are gone into one by one, and back out by the ground or by their names", async () => {
  const { twice, box, boxes, crumbs, one } = await view(layers(4));
  const before = boxes();
  const inBoth = async () => {
    await twice(box("net/layer3"));
    await twice(box("net/layer3/second"));
    expect(crumbs()).toBe("loss›layer3›second");
  };
  await inBoth();
  await twice(one(".gw-svg"));
  expect(crumbs()).toBe("loss›layer3");
  await twice(one(".gw-svg"));
  expect([crumbs(), boxes()]).toEqual(["loss", before]);
  await inBoth();
  one(".gw-crumbs button").click();
  await nextFrame();
  expect([crumbs(), boxes()]).toEqual(["loss", before]);
});

it("on the ground outside of all boxes a double click goes nearer", async () => {
  const { twice, one, camera } = await view(layers(4));
  const before = camera();
  await twice(one(".gw-svg"));
  expect(camera()).not.toBe(before);
});

it("Escape first lets go of what is selected inside", async () => {
  const { twice, box, crumbs, press, channel } = await view(layers(4));
  await twice(box("net/layer3"));
  channel.change("selected", 0);
  await nextFrame();
  await press("Escape");
  expect([channel.get("selected"), crumbs()]).toEqual([null, "loss›layer3"]);
  await press("Escape");
  expect(crumbs()).toBe("loss");
});

it("who closes the box is out of it, and so is who is shown another graph", async () => {
  const { twice, box, crumbs, one, channel } = await view(layers(4));
  await twice(box("net/layer3"));
  const sign = one('.gw-frame-heads [data-path="net/layer3"] .gw-frame-sign');
  sign.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  await nextFrame();
  expect(crumbs()).toBe("loss");
  await twice(box("net/layer3"));
  channel.change("model", layers(3));
  await nextFrame();
  expect(crumbs()).toBe("loss");
});

it("what is opened where it stands is in sight, at whichever edge its box was", async () => {
  for (const path of ["net/layer0", "net/layer5", "net/layer3"]) {
    const { one, seen } = await view(layers(6));
    const sign = one(`[data-group="${path}"] .gw-open-sign`);
    sign.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    await nextFrame();
    const [left, top, right, bottom] = seen(path);
    expect(Math.min(left, top), path).toBeGreaterThanOrEqual(0);
    expect(right - Math.max(1000, right - left + 16), path).toBeLessThanOrEqual(0);
    expect(bottom - Math.max(500, bottom - top + 16), path).toBeLessThanOrEqual(0);
    page.remove();
  }
});
