// @vitest-environment jsdom
import { describe, expect, it, vi } from "vitest";
import type { PlanModel } from "../../wire";
import { headlineOf, MemoryCurve } from "./curve";

const plan: PlanModel = {
  summary: "Planned, without weights",
  live: [100, 400, 2048, 1000],
  nodes: [3, null, 1, 3],
  words: ["first, forward", "second, forward", "third, backward", "fourth, backward"],
  held: ["a", "b", "c", "d"],
  forward: 2,
  backward: 1,
  peak: 2,
  advised: [],
};

function shown() {
  const goTo = vi.fn();
  const curve = new MemoryCurve(goTo);
  curve.show(plan);
  const chart = curve.element.querySelector<HTMLElement>("[role=slider]") as HTMLElement;
  const press = (key: string) => {
    const event = new KeyboardEvent("keydown", { key, cancelable: true, bubbles: true });
    chart.dispatchEvent(event);
    return event.defaultPrevented;
  };
  return { goTo, curve, chart, press, words: () => chart.getAttribute("aria-valuetext") };
}

describe("the memory curve", () => {
  it("is hidden without a plan, and begins at the peak", () => {
    const { curve, words, chart } = shown();
    expect(curve.element.hidden).toBe(false);
    expect(words()).toBe("2 KiB, the peak: third, backward. Held: c");
    expect(chart.getAttribute("aria-valuemax")).toBe("3");
    curve.show(null);
    expect(curve.element.hidden).toBe(true);
  });

  it("begins with the peak, how it is known, and what does not count", () => {
    const summary =
      "Measured by a real step: peak at least 1.5 MiB, Add in 0.fc at run.py:5. Not counted: caches.";
    const words = headlineOf({ ...plan, summary }).map(({ textContent }) => textContent);
    expect(words).toEqual([
      "at least 1.5 MiB peak",
      "Add in 0.fc at run.py:5",
      "Measured by a real step. Not counted: caches.",
    ]);
    expect(shown().curve.element.firstElementChild?.textContent).toBe(plan.summary);
  });

  it("moves with keys, within its ends, and goes to the node", () => {
    const { press, words, goTo } = shown();
    expect(press("ArrowRight")).toBe(true);
    expect(words()).toContain("fourth");
    press("ArrowRight");
    expect(words()).toContain("fourth");
    press("Enter");
    expect(goTo).toHaveBeenCalledWith(3, true);
    press("Home");
    expect(words()).toBe("100 bytes: first, forward. Held: a");
    press("ArrowRight");
    press("Enter");
    expect(goTo).toHaveBeenCalledTimes(1);
    expect(press("x")).toBe(false);
  });

  it("names the phases that the step has", () => {
    const { curve } = shown();
    const names = () =>
      Array.from(curve.element.querySelectorAll(".gw-plan-phases span"), (one) => one.textContent);
    expect(names()).toEqual(["forward", "backward", "step"]);
    curve.show({ ...plan, backward: 2 });
    expect(names()).toEqual(["forward", "backward"]);
  });

  it("follows the steps of backward", () => {
    const { curve, words } = shown();
    const stepOf = new Map([
      [1, 2],
      [3, 5],
    ]);
    curve.follow(5, stepOf);
    expect(words()).toContain("third");
    curve.show({ ...plan, backward: 2 });
    curve.follow(5, stepOf);
    expect(words()).toContain("fourth");
    curve.follow(4, stepOf);
    expect(words()).toContain("third");
    curve.follow(1, stepOf);
    expect(words()).toContain("second");
  });
});
