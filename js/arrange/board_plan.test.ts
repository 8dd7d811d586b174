import { describe, expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import { wholeFolding } from "../fold/folding";
import { foldedPlan, groupedGraph } from "../fold/grouped_graph";
import { estimate } from "../text/measure";
import { boardPlan, makeScene } from "./pipeline";

/** A layer of two operations, a learnt activation, and a head with a single operation in its own module. */
function network() {
  const g = new Builder();
  g.namespace = "net/0";
  const product = g.op("MmBackward0", [4], { self: g.leaf("x", [4]), mat2: g.leaf("w", [4]) });
  const added = g.op("AddBackward0", [4], { self: product, other: g.leaf("b", [4]) });
  g.namespace = "net/1";
  const active = g.op("PreluBackward0", [4], { self: added, weight: g.leaf("p", [1]) });
  g.namespace = "head/out";
  const out = g.op("MulBackward0", [4], { self: active, other: g.leaf("scale", [4]) }, "y");
  g.namespace = "";
  return g.graph([g.op("SumBackward0", [], { self: out }), "loss"]);
}

describe("a board", () => {
  const graph = network();
  const grouped = groupedGraph(graph);
  const plan = foldedPlan(grouped, wholeFolding(grouped.tree));

  it("has no frame around a single operation, which is called by its outermost module instead", () => {
    const { frames, nodes } = boardPlan(graph, plan);
    expect(plan.frames.map(({ path }) => path)).toContain("head/out");
    expect(frames.map(({ path }) => path)).toEqual(["net", "net/0"]);
    expect(frames.map(({ parent }) => parent)).toEqual([-1, 0]);
    const moduleOf = new Map(nodes.map(({ id, module }) => [graph.nodes[id].op, module]));
    expect(moduleOf.get("PreluBackward0")).toBe("net/1");
    expect(moduleOf.get("MulBackward0")).toBe("head");
    expect(moduleOf.get("MmBackward0")).toBeUndefined();
    for (const { id, frame } of nodes.filter(({ id }) => graph.nodes[id].kind === "op")) {
      const space = graph.nodes[id].namespace ?? "";
      if (frame >= 0) expect(`${space}/`.startsWith(`${frames[frame].path}/`)).toBe(true);
    }
  });

  it("names a node by its module unless it has a name of its own", () => {
    const scene = makeScene(graph, plan, "left", estimate);
    expect(scene.frames.map(({ path }) => path)).toEqual(["net", "net/0"]);
    const words = scene.nodes.map(({ shape }) => shape.texts.map(({ text }) => text));
    expect(words.find((texts) => texts.includes("PreluBackward0"))).toContain("net.1");
    const last = words.find((texts) => texts.includes("MulBackward0"));
    expect(last).toContain("y");
    expect(last).not.toContain("head");
  });

  it("changes nothing where boxes are closed, or where each has several operations", () => {
    const changed = boardPlan(graph, plan);
    expect(boardPlan(graph, changed)).toBe(changed);
    const closed = foldedPlan(grouped, { ...wholeFolding(grouped.tree), open: new Set() });
    expect(boardPlan(graph, closed)).toBe(closed);
  });
});
