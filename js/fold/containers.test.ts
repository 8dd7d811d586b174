import { expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
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

it("has no box for a module without parameters that runs in several places", () => {
  const { tree } = groupedGraph(uNet(3, "pool"));
  expect(tree.byPath.has("pool")).toBe(false);
});

it("has no box for two lists whose modules are joined in pairs by operations outside", () => {
  const g = new Builder();
  let x = g.leaf("x", [4]);
  const made: number[] = [];
  for (const [list, count] of [
    ["downs", 3],
    ["ups", 3],
  ] as const)
    for (let i = 0; i < count; i++) {
      g.namespace = "";
      if (list === "ups") x = g.op("CatBackward0", [4], { a: made.pop() ?? 0, b: x });
      g.namespace = `${list}/${i}`;
      x = g.op("MmBackward0", [4], { self: x, mat2: g.leaf(`${list}.${i}.weight`, [4, 4]) });
      x = g.op("ReluBackward0", [4], { self: x });
      if (list === "downs") made.push(x);
    }
  g.namespace = "";
  const { tree } = groupedGraph(g.graph([g.op("MeanBackward0", [], { self: x }, "loss"), "loss"]));
  expect(["downs", "ups"].filter((list) => tree.byPath.has(list))).toEqual([]);
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
