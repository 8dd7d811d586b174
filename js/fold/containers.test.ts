import { expect, it } from "vitest";
import { transformer } from "../demo/deep_models";
import { translator } from "../testing/translator";
import { uNet } from "../testing/u_net";
import { reusedModules } from "./containers";
import { firstFolding } from "./folding";
import { foldedPlan, groupedGraph } from "./grouped_graph";
import { groupTree } from "./tree";

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

it("has no box for a module without parameters that is called in several places", () => {
  const paths = ["twice", "", "twice", "chain", "chain", "once", "", "owner", "", "owner", ""];
  const nodes = paths.map((_, v) => ({ kind: v === 10 ? ("leaf" as const) : ("op" as const) }));
  const source = paths.slice(1).map((_, v) => v);
  const graph = { source, target: source.map((v) => v + 1), tree: groupTree(paths) };
  expect([...reusedModules(graph, nodes)]).toEqual(["twice"]);
});

it("names the calls of such a module after it", () => {
  const grouped = groupedGraph(translator(6));
  expect(grouped.tree.byPath.has("encoder/dropout")).toBe(false);
  const open = new Set(["encoder", "decoder"]);
  const { nodes } = foldedPlan(grouped, { ...firstFolding(grouped.tree), open });
  const calls = nodes.filter(({ module }) => module === "encoder/dropout");
  expect(calls.map(({ group }) => group)).toEqual([null, null]);
});
