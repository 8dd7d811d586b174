import { describe, expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import { layoutsOf } from "./layouts";

const graph = () => {
  const g = new Builder();
  return g.graph([g.op("SumBackward0", [], { self: g.leaf("x", [2]) }, "loss"), "loss"]);
};
const input = (height: number) => ({
  ...{ n: 2, source: [0], target: [1] },
  ...{ width: [40, 40], height: [height, 20] },
});

describe("the layouts of a graph", () => {
  it("are made once for the same input", () => {
    const layouts = layoutsOf(graph());
    layouts.begin(1);
    const first = layouts.of(input(20), { nodeGap: 10 });
    expect(layouts.isSpent).toBe(true);
    expect(layouts.of(input(20), { nodeGap: 10 })).toBe(first);
    expect(layouts.of(input(20), { nodeGap: 20 })).not.toBe(first);
    expect(layouts.of(input(30), { nodeGap: 10 })).not.toBe(first);
  });

  it("have a budget, of which a part may be spent", () => {
    const layouts = layoutsOf(graph());
    layouts.begin(5);
    layouts.atMost(2, () => {
      layouts.of(input(1), {});
      expect(layouts.isSpent).toBe(false);
      layouts.of(input(2), {});
      expect(layouts.isSpent).toBe(true);
    });
    expect(layouts.isSpent).toBe(false);
    for (const height of [3, 4, 5]) layouts.of(input(height), {});
    expect(layouts.isSpent).toBe(true);
    layouts.begin(1);
    expect(layouts.isSpent).toBe(false);
  });

  it("belong to one graph", () => {
    const one = graph();
    expect(layoutsOf(one)).toBe(layoutsOf(one));
    expect(layoutsOf(one)).not.toBe(layoutsOf(graph()));
  });
});
