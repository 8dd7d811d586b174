// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { localChannel } from "../channel";
import { nextFrame, testPage } from "../testing/browser";
import { fakeRun } from "../testing/fake_run";
import { MODELS } from "../testing/graphs";
import { freshTraits } from "../testing/traits";
import { createView } from "../view";

const page = testPage();
const moved: string[] = [];

beforeEach(() => {
  moved.length = 0;
  Element.prototype.animate = vi.fn(function (this: Element) {
    moved.push(this.getAttribute("class") ?? "");
    return {} as Animation;
  });
});
afterEach(() => Reflect.deleteProperty(Element.prototype, "animate"));

/** What moves in the picture when a button of the bar is pressed at the start of a pass. */
async function movedBy(label: string, isCalm = false): Promise<string[]> {
  const plain = globalThis.matchMedia;
  vi.stubGlobal("matchMedia", (query: string) => ({
    ...plain(query),
    matches: isCalm && query.includes("reduced-motion"),
  }));
  const host = document.body.appendChild(document.createElement("div"));
  const graph = MODELS["h = w * x + b"]();
  const { steps, run } = fakeRun(graph, "fine");
  page.remove = createView(
    host,
    localChannel(freshTraits(graph, { _steps: steps, run, cursor: 0 })),
  );
  await nextFrame();
  moved.length = 0;
  host.querySelector<HTMLElement>(`button[aria-label="${label}"]`)?.click();
  await nextFrame();
  return moved;
}

it("moves dots and the numbers of a step", async () => {
  const names = await movedBy("One step");
  expect(names).toContain("gw-dot");
  expect(names.some((name) => name.includes("gw-popping"))).toBe(true);
});

it("moves nothing at a jump to the end", async () => {
  expect(await movedBy("To the end")).toEqual([]);
});

it("moves nothing for readers who prefer less motion", async () => {
  expect(await movedBy("One step", true)).toEqual([]);
});
