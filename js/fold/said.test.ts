import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { NO_MODULES, PLAIN_NODE } from "../demo/build_graph";
import { allIn, holds } from "../scene/members";
import { shownGraph } from "../scene/shown_graph";
import { estimate } from "../text/measure";
import type { GraphModel, NodeModel } from "../wire";
import { wholeFolding } from "./folding";
import { groupedGraph } from "./grouped_graph";

/** `for ...: x = x * 2`, `count` times; every second factor has a name. */
function factors(count: number): GraphModel {
  const nodes: NodeModel[] = [];
  const add = (node: Partial<NodeModel>) =>
    nodes.push({
      ...PLAIN_NODE,
      ...{ id: nodes.length, kind: "op", op: "MulBackward0", label: "MulBackward0" },
      ...node,
    }) - 1;
  for (let i = 0; i < count; i++) add({ sign: i % 2 ? "×" : "× 2" });
  add({ kind: "leaf", op: "AccumulateGrad", label: "x", name: "x" });
  const plain = { arg_nr: 0, output_nr: 0, argument: "self", via: null };
  const edges: GraphModel["edges"] = [];
  for (let i = 0; i < count; i++)
    edges.push({ ...plain, source: i, target: i + 1, kind: "gradient" });
  for (let i = 0; i < count; i++) {
    const name = i % 2 ? `k${i}` : null;
    const target = add({
      ...{ kind: "constant", op: "constant", label: name ?? "2", name, value: 2 },
      said_by: i % 2 ? null : i,
    });
    edges.push({
      source: i,
      target,
      arg_nr: 1,
      output_nr: 0,
      via: null,
      argument: "other",
      kind: "constant",
    });
  }
  const roots = [{ node: 0, output_nr: 0, name: "y" }];
  return {
    static: false,
    modules: NO_MODULES,
    nodes,
    edges,
    roots,
    checkpoints: [],
    derivatives: [],
    ranks: null,
    plan: null,
  };
}

function sceneOf(graph: GraphModel) {
  const grouped = groupedGraph(shownGraph(graph, true));
  return foldedScene(grouped, wholeFolding(grouped.tree), "left", estimate);
}

describe("a number in a sign", () => {
  it("is not drawn once more, and its operation stands for it", () => {
    const scene = sceneOf(factors(6));
    expect(scene.nodes.map(({ id }) => id)).toEqual([0, 1, 2, 3, 4, 5, 6, 8, 10, 12]);
    expect(scene.drawn[7]).toEqual(scene.drawn[0]);
    expect(holds(scene.nodes[0], 7)).toBe(true);
    expect(allIn(scene.nodes[2])).toEqual([2, 9]);
    const graph = factors(6);
    scene.edges.forEach((edge, i) => {
      const [at] = edge.merged?.edges ?? [];
      expect(scene.edgeOf?.[at]).toBe(i);
      expect(graph.edges[at].source).toBe(scene.nodes[edge.source].id);
      expect(graph.edges[at].target).toBe(scene.nodes[edge.target].id);
    });
    expect(scene.edgeOf?.filter((at) => at < 0)).toHaveLength(3);
  });

  it("counts for no board's size, and is a chip in larger pictures, which have no signs", () => {
    expect(sceneOf(factors(23)).nodes).toHaveLength(35);
    expect(sceneOf(factors(39)).nodes).toHaveLength(59);
    expect(sceneOf(factors(39)).nodes[0].shape.card).toBeDefined();
    expect(sceneOf(factors(41)).nodes).toHaveLength(83);
  });
});

/** `sum of operations on x`, each with its sign and module. A number in a sign is a constant. */
function usesOf(uses: [sign: string, namespace: string | null][]): string[] {
  const leaf = uses.length + 1;
  const plain = { ...PLAIN_NODE, kind: "op" as const, op: "AddBackward0", label: "AddBackward0" };
  const nodes: NodeModel[] = [
    { ...plain, id: 0, sign: "cat" },
    ...uses.map(([sign, namespace], i) => ({ ...plain, id: i + 1, sign, namespace })),
    { ...plain, id: leaf, kind: "leaf", label: "x", name: "x", namespace: "" },
  ];
  const edges: GraphModel["edges"] = uses
    .flatMap((_, i) => [
      ...[{ source: 0, target: i + 1, arg_nr: i, output_nr: 0, argument: null }],
      ...[{ source: i + 1, target: leaf, arg_nr: 0, output_nr: 0, argument: "self" }],
    ])
    .map((edge) => ({ ...edge, kind: "gradient", via: null }));
  uses.forEach(([sign], i) => {
    if (!/\d/.test(sign)) return;
    const id = nodes.length;
    nodes.push({ ...plain, kind: "constant", id, label: "2", value: 2, said_by: i + 1 });
    edges.push({ ...edges[0], source: i + 1, target: id, arg_nr: 1, kind: "constant" });
  });
  const roots = [{ node: 0, output_nr: 0, name: "y" }];
  const graph = {
    static: false,
    modules: NO_MODULES,
    nodes,
    edges,
    roots,
    checkpoints: [],
    derivatives: [],
    ranks: null,
    plan: null,
  };
  const rows = sceneOf(graph).nodes.find(({ id }) => id === leaf)?.rows ?? [];
  return [...rows].sort();
}

describe("the rows of a leaf", () => {
  it("say the number that an operation takes", () => {
    expect(
      usesOf([
        ["+ 1", null],
        ["3 ×", null],
        ["relu", null],
        ["×", null],
      ]),
    ).toEqual(["3 × x", "relu(x)", "x + 1", "x × …"]);
  });

  it("name modules, where these tell them apart", () => {
    expect(
      usesOf([
        ["linear", "fc1"],
        ["linear", "net/fc2"],
        ["× 2", ""],
      ]),
    ).toEqual(["fc1", "fc2", "x × 2"]);
    expect(
      usesOf([
        ["linear", "net/0"],
        ["linear", "net/1"],
      ]),
    ).toEqual(["net.0", "net.1"]);
    expect(
      usesOf([
        ["tanh", "cell"],
        ["exp", "cell"],
      ]),
    ).toEqual(["exp(x)", "tanh(x)"]);
  });
});
