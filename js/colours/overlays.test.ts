import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { transformer } from "../demo/deep_models";
import { firstFolding, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { tableMeasure } from "../text/metrics";
import type { OverlayModel } from "../wire";
import { NOT_FINITE, NOTHING, ZERO } from "./colouring";
import { byOverlay, withUnit } from "./overlays";

const graph = transformer(4);
const grouped = groupedGraph(graph);
const folding = toDepth(grouped.tree, firstFolding(grouped.tree), 2);
const scene = foldedScene(grouped, folding, "left", tableMeasure);
const bars = scene.nodes.filter(({ bar }) => bar);
const inside = (layer: number) => bars[layer].group?.members ?? [];

function overlay(change: Partial<OverlayModel>): OverlayModel {
  const shown = { label: "Fisher", unit: "", adds_up: false, is_shown: true };
  return { ...shown, nodes: [], values: [], modules: [], module_values: [], ...change };
}

describe("an overlay", () => {
  it("colours boxes by their own number, from the least to the largest", () => {
    const modules = bars.map(({ group }) => group?.paths[0] ?? "");
    const { tint, legend } = byOverlay(scene, overlay({ modules, module_values: [1, 2, 3, 4] }));
    const names = bars.map(({ index }) => tint.nodes[index]);
    expect(names).toEqual(["is-c0", "is-c3", "is-c6", "is-c8"]);
    expect(tint.words(bars[3])).toBe("Fisher: 4");
    expect(legend.ticks?.map(({ text }) => text)).toEqual(["1", "2", "3", "4"]);
    expect(legend.entries).toEqual([{ name: NOTHING, text: "no number" }]);
  });

  it("shows the largest number inside of a box, or the sum", () => {
    const [first, second] = inside(0);
    const numbers = { nodes: [first, second], values: [2, 5] };
    expect(byOverlay(scene, overlay(numbers)).tint.words(bars[0])).toBe("Fisher: 5");
    const {
      tint,
      legend,
      bars: fills,
    } = byOverlay(scene, overlay({ ...numbers, unit: "s", adds_up: true }));
    expect(tint.words(bars[0])).toBe("Fisher: 7 s");
    expect(legend.title).toBe("Fisher, 7 s in all");
    expect(fills.get(bars[0].index)?.share).toBe(1);
  });

  it("has a logarithmic scale for positive numbers far apart, with zeros beside it", () => {
    const nodes = [0, 1, 2].map((layer) => inside(layer)[0]);
    const { tint, legend } = byOverlay(scene, overlay({ nodes, values: [1, 1e-6, 0] }));
    expect(bars.slice(0, 3).map(({ index }) => tint.nodes[index])).toEqual([
      "is-c8",
      "is-c0",
      ZERO,
    ]);
    expect(legend.entries[0]).toEqual({ name: ZERO, text: "0" });
  });

  it("has a linear scale for negative numbers, and marks NaN", () => {
    const nodes = [0, 1, 2].map((layer) => inside(layer)[0]);
    const { tint, legend } = byOverlay(scene, overlay({ nodes, values: [-2, 1000, "nan"] }));
    expect(bars.slice(0, 3).map(({ index }) => tint.nodes[index])).toEqual([
      "is-c0",
      "is-c8",
      NOT_FINITE,
    ]);
    expect(legend.ticks?.map(({ text }) => text)).toEqual(["0", "400", "800"]);
  });
});

it("numbers have three digits, and prefixes where the unit takes them", () => {
  expect(withUnit(0.71234, "")).toBe("0.712");
  expect(withUnit(-3, "nats")).toBe("-3 nats");
  expect([0, 999, 1000, 1.3146e15, 5e21].map((one) => withUnit(one, "FLOP"))).toEqual([
    "0 FLOP",
    "999 FLOP",
    "1 kFLOP",
    "1.31 PFLOP",
    "5000 EFLOP",
  ]);
  expect([2, 0.0123, 4e-7, 3e-15].map((one) => withUnit(one, "s"))).toEqual([
    "2 s",
    "12.3 ms",
    "400 ns",
    "0.003 ps",
  ]);
  expect(withUnit(2048, "B")).toBe("2 KiB");
});
