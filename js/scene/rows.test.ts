import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { firstFolding } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { sceneOf } from "../testing/scenes";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { groupTitle } from "./box_words";
import { isModule } from "./module_class";
import { wordsOf } from "./node_words";

/** The rows of a leaf `name` that operations with these signs use, each with another leaf. */
function rowsOf(name: string, signs: readonly string[], other: Partial<GraphModel["nodes"][0]>) {
  const g = new Builder();
  const w = g.leaf(name, []);
  const made = signs.map((sign) =>
    g.op(
      "MulBackward0",
      [],
      /[+−×÷]$/.test(sign) ? { self: w, other: g.leaf(null, []) } : { self: w },
    ),
  );
  const sum = made.reduce((a, b) => g.op("AddBackward0", [], { self: a, other: b }));
  const graph = g.graph([sum, "loss"]);
  const of = new Map(
    [...graph.nodes.filter(({ op }) => op === "MulBackward0")]
      .reverse()
      .map(({ id }, i) => [id, signs[i]]),
  );
  const nodes = graph.nodes.map((node) => ({
    ...node,
    sign: of.get(node.id) ?? (node.kind === "op" ? "+" : null),
    ...(node.kind === "leaf" && node.name === null ? other : {}),
  }));
  const leaf = sceneOf({ ...graph, nodes }).nodes.find(({ rows }) => rows);
  return [...(leaf?.rows ?? [])].sort();
}

describe("the rows of a leaf", () => {
  it("say which operand it was, and the other one's name or number", () => {
    expect(rowsOf("w", ["×", "×"], { value: 0.4621 })).toEqual(["w × 0.46", "w × 0.46"]);
    expect(rowsOf("w", ["×", "×"], { value: 1, changed: null })).toEqual(["w × …", "w × …"]);
    expect(rowsOf("w", ["×", "×"], { value: -0.083899 })[0]).toBe("w × −0.084");
  });

  it("write functions, places and transposes as on a board", () => {
    const words = rowsOf("net.0.weight", ["( )ᵀ", "[ ]", "Σ", "log softmax"], {});
    expect(words).toEqual(["log softmax", "weight[ ]", "weightᵀ", "Σ(weight)"]);
    expect(rowsOf("x", ["× 2", "( )^1"], {})).toEqual(["x × 2", "x^1"]);
    expect(rowsOf("x", ["[0]", "[:, 1:3]", "put at [1]"], {})).toEqual([
      "x put at [1]",
      "x[0]",
      "x[:, 1:3]",
    ]);
  });
});

it("names the modules around modules of one name", () => {
  const g = new Builder();
  const table = g.leaf("shared.weight", [3, 3]);
  const used = ["encoder/embed", "decoder/embed", "lm_head"].map((namespace) => {
    g.namespace = namespace;
    return g.op("MvBackward0", [3], { self: table });
  });
  g.namespace = "";
  const { nodes } = sceneOf(
    g.graph([used.reduce((a, b) => g.op("AddBackward0", [3], { self: a, other: b })), "loss"]),
  );
  expect([...(nodes.find(({ rows }) => rows)?.rows ?? [])].sort()).toEqual([
    "decoder",
    "encoder",
    "lm_head",
  ]);
});

it("a module that is only a number is called as its parameters are", () => {
  const g = new Builder();
  g.namespace = "0";
  const x = g.op("MulBackward0", [], { self: g.leaf("net.0.weight", []) });
  const graph = g.graph([x, "y"]);
  for (const node of graph.nodes) node.namespace = node.kind === "op" ? "0" : null;
  expect(groupTitle("0", graph)).toBe("net.0");
  expect(groupTitle("0/1", graph)).toBe("0.1");
  expect(groupTitle("0")).toBe("0");
});

it("modules in compiled code are called as elsewhere, and its box as its node", () => {
  const g = new Builder();
  const x = g.op("MulBackward0", [], { self: g.leaf("net.0.weight", []) });
  const y = g.op("CompiledFunctionBackward", [], { x });
  const graph = g.graph([y, "y"]);
  const compiled = "CompiledFunctionBackward 2";
  const nodes = graph.nodes.map((node) => {
    if (node.op === "MulBackward0")
      return { ...node, kind: "call" as const, namespace: `${compiled}/0` };
    return node.kind === "op"
      ? { ...node, namespace: compiled, sign: "compiled: 3 calls" }
      : { ...node, namespace: null };
  });
  expect(groupTitle(`${compiled}/0`, { nodes })).toBe("net.0");
  expect(groupTitle(compiled, { nodes })).toBe("compiled: 3 calls");
  expect(groupTitle(compiled)).toBe("compiled code 2");
  const opened = nodes.find(({ op }) => op === "CompiledFunctionBackward");
  if (!opened) throw new Error("There is none.");
  expect(wordsOf(opened, [], 0, estimate).sign).toBe("compiled");
  expect(wordsOf({ ...opened, namespace: null }, [], 0, estimate).sign).toBe("compiled: 3 calls");
  expect(groupTitle("net/MaskedBackward 2")).toBe("Masked 2");
  expect(isModule("net/MaskedBackward 2")).toBe(false);
});

it("names a module that no variable holds by its class", () => {
  expect(groupTitle("(CrossEntropyLoss)")).toBe("CrossEntropyLoss");
  expect(groupTitle("(Sequential 2)/1")).toBe("Sequential 2.1");
});

it("are named where a strip comes before their leaf, too", () => {
  const g = new Builder();
  const table = g.leaf("table", [3, 3]);
  g.namespace = "";
  let h = g.op("EmbeddingBackward0", [3], { weight: table });
  for (let step = 0; step < 5; step++) {
    g.namespace = `step ${step}`;
    h = g.op("TanhBackward0", [3], { self: g.op("MvBackward0", [3], { self: table, vec: h }) });
  }
  g.namespace = "";
  const grouped = groupedGraph(g.graph([g.op("SumBackward0", [], { self: h }), "loss"]));
  const folding = { ...firstFolding(grouped.tree), open: new Set<string>() };
  const { nodes } = foldedScene(grouped, folding, "left", estimate);
  expect(nodes.filter(({ bar }) => bar).length).toBe(5);
  const named = nodes.filter(({ rows }) => rows);
  expect(named.map(({ leaf, rows }) => [leaf, rows?.length])).toEqual([[true, 2]]);
});
