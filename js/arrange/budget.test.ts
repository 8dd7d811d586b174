import { afterAll, describe, expect, it, vi } from "vitest";
import { Builder } from "../demo/build_graph";
import { layout } from "../layout/index";
import { MOST_CHOOSING, MOST_PLACING } from "../place/layouts";
import { randomInts } from "../testing/layout_graphs";
import { tableMeasure } from "../text/metrics";
import type { GraphModel } from "../wire";
import { bestDirection, firstScene } from "./first_view";

vi.mock("../layout/index", async (original) => {
  const { layout, ...rest } = await original<typeof import("../layout/index")>();
  return { ...rest, layout: vi.fn(layout) };
});
afterAll(() => vi.restoreAllMocks());

/** A net with shared modules: stacks of layers, each used several times, with skips, sums and reuse across depth. */
function sharedNet(seed: number): GraphModel {
  const random = randomInts(seed);
  const g = new Builder();
  const layers = Array.from({ length: 1 + random(3) }, (_, i) => {
    const path = random(2) ? `net/${i}` : `net/block_${random(2)}/${i}`;
    return { path, weight: g.leaf(`${path}.weight`.replaceAll("/", "."), [4, 4]) };
  });
  const made = [g.leaf("x", [2, 4])];
  const some = () => made[random(made.length)];
  const results: number[] = [];
  const uses = 1 + random(10);
  for (let k = 0; k < uses; k++) {
    const { path, weight } = layers[random(layers.length)];
    g.namespace = path;
    const self = random(3) ? made[made.length - 1] : some();
    const product = g.op("MmBackward0", [2, 4], { self, mat2: weight });
    let h = random(2) ? g.op("ReluBackward0", [2, 4], { self: product }) : product;
    g.namespace = random(2) ? "net" : "";
    if (random(2)) h = g.op("AddBackward0", [2, 4], { self: h, other: some() });
    made.push(h);
    if (random(2)) results.push(h);
  }
  g.namespace = "";
  const sum = results.reduce(
    (self, other) => g.op("AddBackward0", [2, 4], { self, other }),
    made[made.length - 1],
  );
  return g.graph([g.op("SumBackward0", [], { self: sum }, "loss"), "loss"]);
}

/** 2,000 of them were drawn once; fewer are enough to notice a search without a bound. */
const GRAPHS = 40;

describe("the first view of a net with shared modules", () => {
  // In a narrow room the other direction may be a choice of its own, for a U-Net.
  it.each([
    [1166, MOST_CHOOSING + MOST_PLACING],
    [666, 2 * MOST_CHOOSING + MOST_PLACING],
  ])("in %i px takes at most %i layouts", { timeout: 300_000 }, (width, most) => {
    const costly: string[] = [];
    for (let seed = 0; seed < GRAPHS; seed++) {
      const graph = sharedNet(seed);
      const room = { width, height: 680, tallest: 860 };
      vi.mocked(layout).mockClear();
      const direction = bestDirection(graph, room, tableMeasure);
      const { nodes } = firstScene(graph, direction, tableMeasure, false, room);
      const { length } = vi.mocked(layout).mock.calls;
      if (length > most || nodes.length === 0) costly.push(`net ${seed}: ${length}`);
    }
    expect(costly).toEqual([]);
  });
});
