import { describe, expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import { groupedGraph } from "../fold/grouped_graph";
import type { SceneNode } from "../scene/scene";
import type { FewModel, GraphModel } from "../wire";
import { answerOf } from "./answer";

/** A model of layers in a row, the first one nearest to the data. */
function model(names: readonly string[]): GraphModel {
  const g = new Builder();
  let x = g.leaf("x", [4]);
  for (const name of names) {
    g.namespace = name;
    const weight = g.leaf(`${name.replaceAll("/", ".")}.weight`, [4]);
    x = g.op("MulBackward0", [4], { self: x, other: weight });
  }
  g.namespace = null;
  return g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
}

/** The sentence about a model whose parameters hold gradients of these norms. */
function said(
  norms: Record<string, number | "nan">,
  hidden: readonly string[] = [],
  closed: readonly string[] = [],
) {
  const graph = model(Object.keys(norms));
  const held = new Map<number, FewModel>();
  for (const { id, name } of graph.nodes)
    for (const [layer, norm] of Object.entries(norms))
      if (name === `${layer.replaceAll("/", ".")}.weight` && !hidden.includes(layer))
        held.set(id, { values: null, norm });
  const nodes = closed.map((path) => {
    const inside = graph.nodes.filter(({ namespace }) => namespace === path);
    const members = inside.map(({ id }) => id);
    const leaves = members.filter((id) => graph.nodes[id].kind === "leaf");
    return { bar: true, group: { paths: [path], members, leaves } };
  });
  return answerOf(groupedGraph(graph), { nodes: nodes as unknown as SceneNode[] }, held);
}

describe("the answer over a model", () => {
  it("has the least and the largest gradient of a healthy one", () => {
    expect(said({ conv: 0.0389, "body/fc": 0.184, head: 0.1 })).toBe(
      "each of the 3 layers holds a .grad, 0.0389 at conv to 0.184 at body.fc",
    );
  });

  it("says how far the gradient falls or grows towards the data", () => {
    expect(said({ stem: 5e-8, mid: 0.001, head: 0.19 })).toBe(
      "the gradient falls from 0.190 at head to 5.00e\u22128 at stem",
    );
    expect(said({ stem: 5e6, mid: 0.001, head: 0.19 })).toBe(
      "the gradient grows from 0.00100 at mid to 5000000 at stem".replace("5000000", "5.00e6"),
    );
    expect(said({ stem: 0.19, head: 5e-8 })).toContain("grows");
  });

  it("leaves out no layer that is open", () => {
    const norms = { a: 1, b: 2, c: 300 };
    expect(said(norms, [], ["a", "b"])).toBe(
      "each of the 3 layers holds a .grad, 1.00 at a to 300 at c",
    );
  });

  it("names layers whose gradient is 0 or not finite, or counts them", () => {
    expect(said({ stem: 0, mid: 1, head: 2 })).toBe("the gradient of stem is 0");
    expect(said({ stem: "nan", mid: 0, head: 2 })).toBe("NaN or Inf in the gradient of stem");
    expect(said({ a: 0, b: 0, c: 0, d: 2 })).toBe("the gradient of 3 of 4 layers is 0");
  });

  it("says nothing where a gradient is unknown, or of a single layer", () => {
    expect(said({ stem: 1, head: 2 }, ["stem"])).toBeNull();
    expect(said({ head: 2 })).toBeNull();
  });
});
