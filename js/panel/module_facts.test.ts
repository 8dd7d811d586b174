import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gradientNorms } from "../colours/norms";
import { Builder } from "../demo/build_graph";
import { namespacesOf } from "../fold/tree";
import { recordingOf } from "../steps/recording";
import { memoryOf } from "../testing/details";
import { graphs } from "../testing/graphs";
import type { GraphModel, RunModel, StepModel } from "../wire";
import { moduleFacts } from "./module_facts";

/** Two layers that share a weight, each with its own bias, between an input and a loss. */
function twoLayers() {
  const g = new Builder();
  const x = g.leaf("x", [4, 3]);
  const weight = g.leaf("net.0.weight", [3, 3]);
  g.namespace = "net/0";
  const first = g.op("MmBackward0", [4, 3], { self: x, mat2: weight });
  const biased = g.op("AddBackward0", [4, 3], { self: first, other: g.leaf("net.0.bias", [3]) });
  g.namespace = "net/1";
  const second = g.op("MmBackward0", [4, 3], { self: biased, mat2: weight });
  const sum = g.op("AddBackward0", [4, 3], { self: second, other: g.leaf("net.1.bias", [3]) });
  g.namespace = "";
  const { nodes, ...rest } = g.graph([g.op("SumBackward0", [], { self: sum }, "loss"), "loss"]);
  // As in a watched graph: a leaf has no module of its own.
  return {
    ...rest,
    nodes: nodes.map((node) => (node.kind === "leaf" ? { ...node, namespace: null } : node)),
  };
}

const named = (graph: GraphModel, ids: readonly number[]) =>
  ids.map((id) => graph.nodes[id].label).sort();

describe("moduleFacts", () => {
  const graph = twoLayers();
  const modules = { namespaces: ["net", "net/1"], classes: [1, 0], names: ["Linear", "Net"] };

  it("counts operations and parameters, a shared one in each of its modules", () => {
    for (const i of [0, 1]) {
      const facts = moduleFacts(graph, [`net/${i}`]);
      expect(facts.operations).toEqual([
        ["AddBackward0", 1],
        ["MmBackward0", 1],
      ]);
      expect(named(graph, facts.parameters)).toEqual(["net.0.weight", `net.${i}.bias`].sort());
      expect(facts.numbers).toBe(12);
    }
    const whole = moduleFacts(graph, ["net"]);
    expect(named(graph, whole.parameters)).toEqual(["net.0.bias", "net.0.weight", "net.1.bias"]);
    expect(whole.numbers).toBe(15);
  });

  it("takes several modules that are alike as one", () => {
    const both = moduleFacts(graph, ["net/0", "net/1"]);
    expect({ ...both, own: 0 }).toEqual({ ...moduleFacts(graph, ["net"]), own: 0 });
    expect(moduleFacts(graph, ["net/1"]).operations).toEqual(
      moduleFacts(graph, ["net/0"]).operations,
    );
  });

  it("is not taken in by a name that begins alike", () => {
    const nodes = graph.nodes.map((node) =>
      node.namespace === "net/1" ? { ...node, namespace: "net/01" } : node,
    );
    expect(moduleFacts({ ...graph, nodes }, ["net/0"]).numbers).toBe(12);
  });

  it("lists the gradients across its border; an input of the model is not a parameter", () => {
    const [first, second] = [0, 1].map((i) => moduleFacts(graph, [`net/${i}`]));
    expect(named(graph, first.inputs)).toEqual(["x"]);
    expect(first.outputs).toEqual(second.inputs);
    expect(named(graph, second.outputs)).toEqual(["AddBackward0"]);
    const net = moduleFacts(graph, ["net"]);
    expect([net.inputs, net.outputs]).toEqual([first.inputs, second.outputs]);
  });

  it("knows the class where Python does, and whether modules are inferred", () => {
    const listed = { ...graph, modules };
    expect(["net", "net/0", "net/1"].map((path) => moduleFacts(listed, [path]).kind)).toEqual([
      "Net",
      null,
      "Linear",
    ]);
    expect(moduleFacts(listed, ["net"]).isInferred).toBe(false);
    const nodes = graph.nodes.map((node) => ({ ...node, inferred: true }));
    expect(moduleFacts({ ...graph, nodes }, ["net"]).isInferred).toBe(true);
  });

  it("tells norms at its border, dead and NaN gradients, and where a gradient was added", () => {
    const { edges, nodes } = graph;
    const places = edges.map((_, i) => i);
    const run: RunModel = {
      run: 1,
      ended: "done",
      seeds: [{ node: 0, output_nr: 0, values: 1, norm: 1 }],
      edges: places,
      values: places.map(() => null),
      norms: places.map((i) => i + 1),
      arrived: [],
      grads: [],
      marks: [],
    };
    const bias = nodes.findIndex(({ label }) => label === "net.0.bias");
    run.norms[edges.findIndex(({ target }) => target === bias)] = 0;
    const x = nodes.findIndex(({ label }) => label === "x");
    const toX = edges.findIndex(({ target }) => target === x);
    run.norms[toX] = "nan";
    const steps: StepModel[] = [
      { step: 1, node: bias, op: "AccumulateGrad", name: null, accumulated: "", ready: 0 },
    ];
    const pass = { recording: recordingOf(graph, steps, run), norms: gradientNorms(graph, run) };
    const facts = moduleFacts(graph, ["net/0"], null, pass).gradients;
    const into = edges.findIndex(({ target }) => graph.nodes[target].namespace === "net/0");
    expect(facts?.arrived).toEqual([into + 1]);
    expect(facts?.passedOn).toEqual([Number.POSITIVE_INFINITY]);
    expect([facts?.dead, facts?.notFinite, facts?.stored]).toEqual([1, 1, 1]); // x is drawn in it
    expect(moduleFacts(graph, ["net/1"], null, pass).gradients?.stored).toBe(0);
    expect(moduleFacts(graph, ["net/1"], null, pass).isUnrecorded).toBe(false);
  });

  it("shares the memory of any graph out: what modules hold adds up to all of it", () => {
    const spaces = fc.array(fc.constantFrom("", "a", "a/b", "a/b/c", "ab", "d"), { minLength: 24 });
    fc.assert(
      fc.property(graphs, spaces, (given, names) => {
        const nodes = given.nodes.map((node, i) => ({ ...node, namespace: names[i] }));
        const graph = { ...given, nodes };
        const memory = memoryOf(graph);
        const of = (path: string) => moduleFacts(graph, [path], memory);
        const all = namespacesOf(graph);
        const outside = memory.bytes.filter((_, i) => all[memory.nodes[i]] === "");
        const rest = outside.reduce((sum, bytes) => sum + bytes, 0);
        expect(of("a").bytes + of("ab").bytes + of("d").bytes + rest).toBe(memory.total);
        expect(of("a").bytes).toBe(of("a").own + of("a/b").bytes);
        expect(of("a/b").bytes).toBe(of("a/b").own + of("a/b/c").own);
      }),
    );
  });
});
