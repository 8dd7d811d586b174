// @vitest-environment jsdom
import { describe, expect, it, vi } from "vitest";
import { transformer } from "../../demo/deep_models";
import { firstFolding, toDepth } from "../../fold/folding";
import { groupedGraph } from "../../fold/grouped_graph";
import { foldedScene } from "../../pipeline";
import { tableMeasure } from "../../text/metrics";
import type { PlanModel } from "../../wire";
import { MemoryCurve } from "./curve";
import { byFlops, formatFlops } from "./flops";

const plan: PlanModel = {
  summary: "Planned, without weights",
  live: [100, 400, 2048, 1000],
  nodes: [3, null, 1, 3],
  words: ["first, forward", "second, forward", "third, backward", "fourth, backward"],
  held: ["a", "b", "c", "d"],
  forward: 2,
  peak: 2,
  flop_nodes: [],
  flops: [],
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

  it("moves with keys, within its ends, and goes to the node", () => {
    const { press, words, goTo } = shown();
    expect(press("ArrowRight")).toBe(true);
    expect(words()).toContain("fourth");
    press("ArrowRight");
    expect(words()).toContain("fourth");
    press("Enter");
    expect(goTo).toHaveBeenCalledWith(3);
    press("Home");
    expect(words()).toBe("100 bytes: first, forward. Held: a");
    press("ArrowRight");
    press("Enter");
    expect(goTo).toHaveBeenCalledTimes(1);
    expect(press("x")).toBe(false);
  });

  it("follows the cursor in backward only", () => {
    const { curve, words } = shown();
    curve.follow(3);
    expect(words()).toContain("fourth");
    curve.follow(99);
    expect(words()).toContain("fourth");
  });
});

describe("colours by FLOPs", () => {
  it("sum over boxes, fill the bars, and say the amount", () => {
    const graph = transformer(4);
    const grouped = groupedGraph(graph);
    const folding = toDepth(grouped.tree, firstFolding(grouped.tree), 2);
    const scene = foldedScene(grouped, folding, "left", tableMeasure);
    const ids = graph.nodes.filter(({ op }) => op === "AddmmBackward0").map(({ id }) => id);
    const given = { ...plan, flop_nodes: ids, flops: ids.map((_, i) => 1000 * (i + 1)) };
    const { tint, legend, bars } = byFlops(scene, given);
    const total = ids.length * (ids.length + 1) * 500;
    expect(legend.title).toContain(formatFlops(total));
    const drawn = scene.nodes.filter(({ bar }) => bar);
    expect(drawn.length).toBeGreaterThan(0);
    expect(bars.size).toBe(drawn.length);
    expect(Math.max(...Array.from(bars.values(), ({ share }) => share ?? 0))).toBe(1);
    for (const { index } of drawn) expect(tint.nodes[index]).toMatch(/^is-c\d$/);
    expect(tint.words({ index: drawn[0].index })).toMatch(/FLOP in this step$/);
  });

  it("are written with three digits", () => {
    const texts = [0, 999, 1000, 1.3146e15, 5e21].map((one) => formatFlops(one));
    expect(texts).toEqual(["0 FLOP", "999 FLOP", "1 kFLOP", "1.31 PFLOP", "5000 EFLOP"]);
  });
});
