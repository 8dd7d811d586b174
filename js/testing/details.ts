import {
  DETAILS_DEFAULTS,
  type DetailsModel,
  type EdgeModel,
  type GraphModel,
  type MemoryModel,
  type TensorSummary,
} from "../wire";

/** A tensor of two numbers. */
export function summary(change: Partial<TensorSummary> = {}): TensorSummary {
  return {
    ...{ shape: [2], dtype: "torch.float32", device: "cpu", numel: 2, values: [1, 0.5] },
    ...{ truncated: false, indices: null, min: 0.5, max: 1, mean: 0.75, norm: 1.118 },
    ...{ nan: 0, inf: 0, zeros: 0, note: null },
    ...change,
  };
}

/** A tensor of one number. */
export function number(value: number): TensorSummary {
  return summary({ shape: [], numel: 1, values: value, norm: Math.abs(value) });
}

/** The details of a node that follow from its graph, before any backward. */
export function detailsOf(
  graph: GraphModel,
  id: number,
  change: Partial<DetailsModel> = {},
): DetailsModel {
  const { nodes, edges } = graph;
  const { kind, op, name, shape, no_grad_inputs, inferred } = nodes[id];
  const isLeaf = kind === "leaf";
  const end = (node: number, { arg_nr, argument, output_nr }: EdgeModel) => {
    const { label, shape } = nodes[node];
    return { node, arg_nr: arg_nr ?? 0, argument, output_nr, label, shape };
  };
  const out = (kind: EdgeModel["kind"]) =>
    edges.filter((edge) => edge.source === id && edge.kind === kind);
  const inputs = out("gradient").map((edge) => end(edge.target, edge));
  const constants = out("constant").map((edge) => end(edge.target, edge));
  const drawn = new Set(constants.map(({ arg_nr }) => arg_nr));
  const consumers = edges
    .filter(({ target }) => target === id)
    .map((edge) => end(edge.source, edge));
  const derivative = {
    code: "grad",
    numbers: null,
    source: "gradwalk",
    checked: false,
    note: null,
  } as const;
  const saved = { name: "self", summary: null, scalar: null, freed: true, note: null };
  const why = "No backward pass has been seen yet.";
  return {
    ...DETAILS_DEFAULTS,
    ...{ id, kind, op, name, shape, inferred, is_leaf: isLeaf, about: `About ${op}.` },
    ...{ inputs, constants, consumers, consumer_count: consumers.length },
    no_grad_inputs: no_grad_inputs.filter(({ arg_nr }) => !drawn.has(arg_nr)),
    input_count: inputs.length + no_grad_inputs.length,
    outputs: [{ output_nr: 0, name, shape, dtype: null, device: null, is_root: false }],
    output_count: 1,
    saved: isLeaf ? [] : [saved],
    saved_count: isLeaf ? 0 : 1,
    formula: inputs.map(({ arg_nr, argument }) => ({ arg_nr, argument, ...derivative })),
    grad_note: { grad: why, grad_output: why, grad_input: why },
    state: "not reached",
    contribution_count: 0,
    operation_count: 0,
    ...change,
  };
}

/** The memory that a graph holds: four bytes for each number of its operations' results. */
export function memoryOf({ nodes }: GraphModel): MemoryModel {
  const held = nodes
    .filter(({ op }) => !/^(Accumulate|View|UnsafeView|T|Transpose|Expand|Add|Sum|Mean)/.test(op))
    .map(({ id, shape }) => {
      const size = (shape ?? []).reduce((product, one) => product * one, 4);
      return { id, size };
    });
  return {
    nodes: held.map(({ id }) => id),
    bytes: held.map(({ size }) => size),
    total: held.reduce((sum, { size }) => sum + size, 0),
    unknown: 0,
  };
}
