import { describe, expect, it } from "vitest";
import { layered, layeredSketch, resnet, transformer } from "../testing/layout_graphs";
import { coordinates } from "./coordinates";
import { orderRanks } from "./order";
import type { Layered } from "./rank";
import { spine } from "./spine";

const gaps = { nodeGap: 20, edgeGap: 10 };

function place(graph: Layered) {
  const width = new Float64Array(graph.size).fill(0);
  width.fill(40, 0, graph.n);
  const reach = { left: width.map((w) => w / 2), right: width.map((w) => w / 2) };
  return coordinates(graph, orderRanks(graph)[0], reach, spine(graph), gaps);
}

describe("coordinates", () => {
  it("centres a node above two equal branches", () => {
    //   0
    //  / \
    // 1   2
    //  \ /
    //   3
    const x = place(
      layered(4, [
        [0, 1],
        [0, 2],
        [1, 3],
        [2, 3],
      ]),
    );
    expect(x[0]).toBe(x[3]);
    expect(x[0] - x[1]).toBeCloseTo(30);
    expect(x[2] - x[0]).toBeCloseTo(30);
  });

  it("draws the longest path as one vertical line, beside which a skip bends at most once at either end", () => {
    const graph = layered(5, [
      [0, 1],
      [1, 2],
      [2, 3],
      [3, 4],
      [0, 4],
    ]);
    const x = place(graph);
    expect(new Set(Array.from(x.subarray(0, 5), Math.round)).size).toBe(1);
    expect(new Set(x.subarray(5)).size).toBe(1);
  });

  it.each([
    ["a ResNet", resnet(6)],
    ["a transformer", transformer(2)],
  ])("draws every long line of %s straight", (_, sketch) => {
    const graph = layeredSketch(sketch);
    const x = place(graph);
    for (let v = graph.n; v < graph.size; v++) {
      for (let j = graph.down.start[v]; j < graph.down.start[v + 1]; j++) {
        if (graph.down.item[j] >= graph.n) expect(x[graph.down.item[j]]).toBeCloseTo(x[v], 6);
      }
    }
  });
});
