import type { GraphModel, NodeModel } from "../wire";
import { Builder, PLAIN_NODE } from "./build_graph";

type Extra = Partial<NodeModel> & Pick<NodeModel, "kind" | "label">;

/** Append nodes that autograd lacks, with their edges. */
function withExtras(
  graph: GraphModel,
  extras: Extra[],
  edges: [source: number, target: number, argument: string | null, argNr: number | null][],
): GraphModel {
  const first = graph.nodes.length;
  return {
    ...graph,
    nodes: [
      ...graph.nodes,
      ...extras.map(
        (extra, i): NodeModel => ({
          ...PLAIN_NODE,
          id: first + i,
          op: extra.kind === "cut" ? extra.label : "constant",
          ...extra,
        }),
      ),
    ],
    edges: [
      ...graph.edges,
      ...edges.map(([source, target, argument, arg_nr]) => ({
        source,
        target,
        argument,
        arg_nr,
        output_nr: 0,
        via: null,
        kind: source >= first ? ("cut" as const) : ("constant" as const),
      })),
    ],
  };
}

/** h = w * x.detach() + b; x is also used with its gradient. */
export function cutInGraph(): GraphModel {
  const g = new Builder();
  const [w, x, b] = ["w", "x", "b"].map((name) => g.leaf(name, []));
  const cut = g.op("MulBackward0", [], { self: w, other: null });
  const square = g.op("MulBackward0", [], { self: x, other: null });
  const sum = g.op("AddBackward0", [], { self: cut, other: square });
  const graph = g.graph([g.op("AddBackward0", [], { self: sum, other: b }, "h"), "h"]);
  const [mulW, mulX] = graph.nodes.filter(({ op }) => op === "MulBackward0").map(({ id }) => id);
  const leaf = graph.nodes.findIndex(({ name }) => name === "x");
  const n = graph.nodes.length;
  return withExtras(
    graph,
    [
      { kind: "cut", label: "x.detach()", value: "3" },
      { kind: "constant", label: "c", name: "c", value: "0.5" },
    ],
    [
      [mulW, n, "other", 1],
      [mulX, n + 1, "other", 1],
      [n, leaf, null, null],
    ],
  );
}

/** The same with x in another graph, frozen weights and a number, all inferred. */
export function cutOutside(): GraphModel {
  const g = new Builder();
  const [w, b] = ["w", "b"].map((name) => g.leaf(name, [3]));
  const product = g.op("MulBackward0", [3], { self: w, other: null });
  const sum = g.op("AddBackward0", [3], { self: product, other: b });
  const scaled = g.op("MulBackward0", [3], { self: sum, other: null });
  const graph = g.graph([g.op("SumBackward0", [], { self: scaled }, "h"), "h"]);
  const muls = graph.nodes.filter(({ op }) => op === "MulBackward0").map(({ id }) => id);
  const n = graph.nodes.length;
  const inferred = true;
  return withExtras(
    graph,
    [
      { kind: "outside", label: "features", name: "features", shape: [3], inferred },
      {
        kind: "cut",
        label: "detached features",
        shape: [3],
        value: "[1, 2, 3]",
        inferred,
      },
      { kind: "constant", label: "2", value: "2", inferred },
    ],
    [
      [muls[1], n + 1, "other", 1],
      [muls[0], n + 2, "other", 1],
      [n + 1, n, null, null],
    ],
  );
}
