import { describe, expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import type { GraphModel } from "../wire";
import { type Folding, firstFolding } from "./folding";
import { foldedPlan, groupedGraph } from "./grouped_graph";

const STEPS = 5;

/** A loop over parts of a tensor; the names of its results, and the step that uses each part. */
interface Loop {
  name?: string | null;
  partOf?: (step: number) => number;
  /** The operation that takes the first part of the state's tensor, used twice in step 0. */
  start?: string;
  /** The modules that each step calls. */
  modules?: readonly string[];
}

/** x → exp → unbind → a loop of tanh(h · part) → stack → mean. */
function loop({ name = null, partOf = (step) => step, start, modules = [] }: Loop = {}) {
  const g = new Builder();
  g.namespace = "";
  const whole = g.op("ExpBackward0", [STEPS, 3], { self: g.leaf("x", [STEPS, 3]) });
  const parts = g.op("UnbindBackward0", [3], { self: whole });
  const states = g.op("ExpBackward0", [2, 3], { self: g.leaf("s", [2, 3]) });
  let h = start ? g.op(start, [3], { self: states }) : g.leaf("h", [3]);
  const results: Record<string, number> = {};
  for (let step = 0; step < STEPS; step++) {
    g.namespace = `step ${step}`;
    const last = h;
    h = g.op("MulBackward0", [3], { self: last, other: parts });
    if (step === 0 && start) h = g.op("AddBackward0", [3], { self: h, other: last });
    for (const module of modules) {
      g.namespace = `step ${step}/${module}`;
      h = g.op("TanhBackward0", [3], { self: h });
    }
    if (modules.length === 0) h = g.op("TanhBackward0", [3], { self: h });
    results[`tensors${step}`] = h;
  }
  g.namespace = "";
  const all = g.op("StackBackward0", [STEPS, 3], results, name);
  const graph = g.graph([g.op("MeanBackward0", [], { self: all }), "loss"]);
  const unbind = graph.nodes.findIndex(({ op }) => op === "UnbindBackward0");
  for (const edge of graph.edges)
    if (edge.target === unbind)
      edge.output_nr = partOf(Number(graph.nodes[edge.source].namespace?.split(/\D+/)[1]));
  return graph;
}

function planOf(graph: GraphModel, change: Partial<Folding> = {}) {
  const grouped = groupedGraph(graph);
  const open = new Set<string>();
  return foldedPlan(grouped, {
    ...firstFolding(grouped.tree),
    open,
    hidesPlumbing: true,
    ...change,
  });
}

const operationsIn = (graph: GraphModel, change?: Partial<Folding>) =>
  planOf(graph, change).nodes.flatMap(({ id, group }) => {
    const { kind, op } = graph.nodes[id];
    return kind === "op" && !group ? op.replace(/Backward\d/, "") : [];
  });

describe("what splits a tensor for the steps of a loop, and what joins their results", () => {
  it("is part of the strip's lines", () => {
    const graph = loop();
    const { nodes, edges, nodeOf } = planOf(graph);
    expect(operationsIn(graph)).toEqual(["Mean", "Exp"]);
    const lines = edges.map(({ source, target, count, folded }) => [
      ...[source, target].map((end) =>
        nodes[end].strip ? "strip" : graph.nodes[nodes[end].id].op,
      ),
      count,
      folded.map((id) => graph.nodes[id].op),
    ]);
    // The stack has one user and five operands, the parts come from one tensor.
    expect(lines).toContainEqual(["MeanBackward0", "strip", STEPS, ["StackBackward0"]]);
    expect(lines).toContainEqual(["strip", "ExpBackward0", 1, ["UnbindBackward0"]]);
    for (const { folded } of edges) for (const id of folded) expect(nodeOf?.[id]).toBe(-1);
  });

  it("is drawn if it has a name, was opened, or all views are shown", () => {
    expect(operationsIn(loop({ name: "states" }))).toEqual(["Mean", "Stack", "Exp"]);
    const graph = loop();
    const unfolded = new Set(graph.nodes.flatMap(({ op, id }) => (/Unbind/.test(op) ? id : [])));
    expect(operationsIn(graph, { unfolded })).toEqual(["Mean", "Exp", "Unbind"].sort(byId(graph)));
    expect(operationsIn(graph, { hidesPlumbing: false })).toContain("Stack");
  });

  it("is drawn if it adds the gradients of several steps", () => {
    expect(operationsIn(loop({ partOf: () => 0 }))).toContain("Unbind");
    expect(operationsIn(loop({ partOf: (step) => step >> 1 }))).toContain("Unbind");
    // The first state's gradient is added in the first step.
    expect(operationsIn(loop({ start: "SelectBackward0" }))).not.toContain("Select");
    expect(operationsIn(loop({ start: "NegBackward0" }))).toContain("Neg");
  });
});

const byId = (graph: GraphModel) => (a: string, b: string) => {
  const place = (word: string) => graph.nodes.findIndex(({ op }) => op.startsWith(word));
  return place(a) - place(b);
};

describe("the strip of a loop says", () => {
  const kindIn = (graph: GraphModel) =>
    planOf(graph).nodes.flatMap(({ strip }) => strip?.kind ?? []);

  it("the modules that each step calls, in the order of the data", () => {
    const modules = ["embed", "cell", "attn", "out"];
    expect(kindIn(loop({ modules }))).toEqual(["embed · cell · attn · out"]);
    // The class of a module around the steps says less.
    const graph = loop({ modules });
    const classed = { namespaces: ["cell"], classes: [0], names: ["Decoder"] };
    expect(kindIn({ ...graph, modules: classed })).toEqual(["embed · cell · attn · out"]);
  });

  it("the modules in the order of the program, where it is known", () => {
    const namespaces = ["out", "attn", "embed", "cell"];
    const graph = loop({ modules: ["embed", "cell", "attn", "out"] });
    const modules = { namespaces, classes: [0, 0, 0, 0], names: ["Linear"] };
    expect(kindIn({ ...graph, modules })).toEqual(["out · attn · embed · cell"]);
  });

  it("the whole names of the modules in a list that another runs between", () => {
    // Such a list has no box.
    const modules = ["down/0", "out", "down/1"];
    expect(kindIn(loop({ modules }))).toEqual(["down.0 · out · down.1"]);
  });

  it("their main operations, if no module is known", () => {
    expect(kindIn(loop())).toEqual(["Mul · Tanh"]);
  });
});
