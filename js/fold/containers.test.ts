import { expect, it } from "vitest";
import { transformer } from "../demo/deep_models";
import { uNet } from "../testing/u_net";
import { groupedGraph } from "./grouped_graph";

it("has no box for lists whose modules do not run one after the other", () => {
  const { tree } = groupedGraph(uNet(3));
  for (const list of ["downs", "ups", "convs"]) {
    expect(tree.byPath.has(list)).toBe(false);
    expect(tree.parent[tree.byPath.get(`${list}/1`) ?? -1]).toBe(0);
  }
  expect(tree.byPath.has("inc")).toBe(true);
});

it("keeps the box of a list whose modules do", () => {
  const graph = transformer(4);
  const { tree } = groupedGraph(graph);
  const paths = new Set(graph.nodes.flatMap(({ namespace }) => namespace ?? []));
  for (const path of paths) expect(path === "" || tree.byPath.has(path)).toBe(true);
});
