import { expect, it } from "vitest";
import { Builder, PLAIN_NODE } from "../demo/build_graph";
import type { GraphModel, LeafCellModel, LeafTableModel } from "../wire";
import { missingIn } from "./tables";

const cell = (norm: number | null): LeafCellModel => ({
  ...{ node: null, requires_grad: true, is_leaf: true, before: null },
  now: norm === null ? null : { values: null, norm },
});

/** A graph in which `detach()` cuts the gradient of x. */
function cutGraph(): GraphModel {
  const g = new Builder();
  const graph = g.graph([g.op("MulBackward0", [], { self: g.leaf("w", []) }), "loss"]);
  const kept = { ...graph.edges[0], argument: null, arg_nr: null };
  return {
    ...graph,
    nodes: [
      ...graph.nodes,
      { ...PLAIN_NODE, id: 2, kind: "cut", op: "detach()", label: "detach()" },
      { ...PLAIN_NODE, id: 3, kind: "outside", op: "gone", label: "x", name: "x" },
    ],
    edges: [...graph.edges, { ...kept, source: 2, target: 3, kind: "cut" }],
  };
}

it("says which leaves get no gradient in one graph alone, and what cuts it", () => {
  const rows = (...norms: [string, number | null, number | null][]): LeafTableModel => ({
    rows: norms.map(([name, ...both]) => ({ name, cells: both.map(cell) })),
    total: norms.length,
  });
  const pane = { label: "b", graph: cutGraph() };
  const table = rows(["w", 1, 2], ["x", 3, null], ["y", null, null]);
  expect(missingIn(table, pane, 1)).toEqual(["x gets None in b: detach()"]);
  expect(missingIn(table, pane, 0)).toEqual([]);
  const many = rows(["a", 1, null], ["b", 1, null], ["c", 1, null], ["d", 1, null]);
  expect(missingIn(many, pane, 1)).toEqual(["a, b, c and 1 more get None in b"]);
});
