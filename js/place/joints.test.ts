import { describe, expect, it } from "vitest";
import { firstScene } from "../arrange/first_view";
import { Builder } from "../demo/build_graph";
import type { Plan } from "../scene/plan";
import { tableMeasure } from "../text/metrics";
import type { GraphModel } from "../wire";
import type { Bend } from "./bend";
import { jointsIn } from "./joints";

/** A chain of sums, 4 = 3 + a, 3 = 2 + b, 2 = 1 + c, in the second half of a bent picture. */
const PLAN = {
  nodes: Array.from({ length: 9 }, (_, id) => ({ id, frame: -1, group: null })),
  edges: [
    { source: 5, target: 4 },
    { source: 4, target: 3 },
    { source: 4, target: 8 },
    { source: 3, target: 2 },
    { source: 3, target: 7 },
    { source: 2, target: 1 },
    { source: 2, target: 6 },
  ],
  frames: [],
} as unknown as Plan;
const BEND: Bend = {
  isLast: Uint8Array.of(0, 1, 1, 1, 1, 1, 0, 0, 0),
  skips: [2, 4, 6],
  others: [],
};

/** One layer used so many times, and the sum of all results. */
function usedAgain(times: number): GraphModel {
  const g = new Builder();
  const weight = g.leaf("net.0.weight", [4, 4]);
  let h = g.leaf("x", [2, 4]);
  let sum: number | null = null;
  for (let k = 0; k < times; k++) {
    g.namespace = "net/0";
    const made = g.op("MmBackward0", [2, 4], { self: h, mat2: weight });
    g.namespace = "net/1";
    h = g.op("ReluBackward0", [2, 4], { self: made });
    g.namespace = "";
    sum = g.op("AddBackward0", [2, 4], sum === null ? { self: h } : { self: sum, other: h });
  }
  return g.graph([g.op("SumBackward0", [], { self: sum ?? h }, "loss"), "loss"]);
}

describe("the joints of a bent picture", () => {
  it("are not beside each other", () => {
    const joints = jointsIn(PLAN, BEND);
    const besides = joints.map(({ dock }) => dock.leaf);
    expect(besides).toEqual([2, 4]);
    for (const { dock } of joints) expect(besides).not.toContain(dock.user);
  });

  it.each([3, 4, 5, 6, 7, 8])("do not keep a layer used %i times from being drawn", (times) => {
    for (const width of [700, 1200]) {
      const room = { width, height: 600, tallest: 860 };
      const { nodes } = firstScene(usedAgain(times), "left", tableMeasure, false, room);
      expect(nodes.length).toBeGreaterThan(0);
    }
  });
});
