import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MODELS } from "../testing/graphs";
import type { EdgeModel, GraphModel } from "../wire";
import { hasConstants, isAutograd, kindOfMerged, shownGraph } from "./shown_graph";

const inGraph = () => MODELS["w * x.detach() + c * x + b"]();
/** The cut began at an operation: an output is used with and without its gradient. */
const ofAnOperation = () => {
  const graph = inGraph();
  const product = graph.nodes.findIndex(({ kind }) => kind === "op");
  const edges = graph.edges.map((edge) =>
    edge.kind === "cut" ? { ...edge, target: product } : edge,
  );
  return { ...graph, edges };
};
const outside = () => MODELS["a detached alias"]();

describe("the graph that is shown", () => {
  it("is the same where there is nothing to hide", () => {
    const graph = MODELS.LeNet();
    expect(hasConstants(graph)).toBe(false);
    expect(shownGraph(graph, true)).toBe(graph);
    expect(shownGraph(graph, false)).toBe(graph);
  });

  it.each([inGraph, ofAnOperation, outside])(
    "keeps autograd's ids and places without constants",
    (make) => {
      const graph = make();
      const { nodes, edges } = shownGraph(graph, false);
      expect(nodes.every(isAutograd)).toBe(true);
      expect(nodes).toEqual(graph.nodes.slice(0, nodes.length));
      expect(edges).toEqual(graph.edges.slice(0, edges.length));
      expect(edges.every(({ kind }) => kind === "gradient")).toBe(true);
      for (const { source, target } of edges)
        expect(Math.max(source, target)).toBeLessThan(nodes.length);
    },
  );

  it.each([inGraph, outside])("draws no input both as a stub and as a constant", (make) => {
    const graph = make();
    const shown = shownGraph(graph, true);
    for (const node of shown.nodes) {
      const drawn = shown.edges.filter(({ source }) => source === node.id);
      for (const { arg_nr } of node.no_grad_inputs)
        expect(drawn.map((edge) => edge.arg_nr)).not.toContain(arg_nr);
      const before = graph.nodes[node.id].no_grad_inputs.length;
      const constants = drawn.filter(({ kind }) => kind === "constant").length;
      expect(node.no_grad_inputs.length + constants).toBe(before);
    }
  });

  it("has no stub for an input that is drawn by the name that a layer gives it", () => {
    const graph: GraphModel = inGraph();
    for (const edge of graph.edges) if (edge.kind === "constant") edge.arg_nr = null;
    for (const { no_grad_inputs } of shownGraph(graph, true).nodes)
      expect(no_grad_inputs).toEqual([]);
  });

  it("keeps the stub of an input that is drawn as nothing else", () => {
    const graph: GraphModel = inGraph();
    const product = graph.edges.find(({ kind }) => kind === "constant")?.source ?? -1;
    graph.nodes[product].no_grad_inputs.push({ arg_nr: 7, argument: "mask" });
    expect(shownGraph(graph, true).nodes[product].no_grad_inputs).toEqual([
      { arg_nr: 7, argument: "mask" },
    ]);
  });

  it("lets a gradient flow along merged edges if it flows along any", () => {
    const edge = (kind: EdgeModel["kind"]): EdgeModel => ({
      source: 0,
      target: 1,
      argument: null,
      arg_nr: 0,
      output_nr: 0,
      via: null,
      kind,
    });
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("gradient", "constant", "cut"), { minLength: 1 }),
        (kinds) => {
          const edges = kinds.map((kind) => edge(kind as EdgeModel["kind"]));
          const found = kindOfMerged({ ...inGraph(), edges }, [...edges.keys()]);
          expect(kinds).toContain(found);
          if (kinds.includes("gradient")) expect(found).toBe("gradient");
        },
      ),
    );
  });
});
