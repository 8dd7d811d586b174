import type { Progress } from "../steps/recording";
import {
  DETAILS_DEFAULTS,
  type DetailsModel,
  type EdgeModel,
  type GraphModel,
  type SavedModel,
  type StateModel,
  type TensorSummary,
  type Values,
} from "../wire";
import { fakeStepDetails } from "./fake_steps";
import { fakeWatched } from "./fake_watched";

/** Details as Python sends them, with invented numbers. */
export function fakeDetails(
  graph: GraphModel,
  id: number,
  state: StateModel,
  progress: Progress | null = null,
): DetailsModel {
  const node = graph.nodes[id];
  const leaf = node.kind === "leaf";
  const out = graph.edges.filter((edge) => edge.source === id && edge.kind === "gradient");
  const ran = state.runs > 0;
  const why = ran
    ? null
    : "No backward pass through this graph has been seen yet: call backward() on the output, and the gradient appears here.";
  const saved = leaf ? [] : savedTensors(graph, id, ran, out[0]);
  return {
    ...DETAILS_DEFAULTS,
    id,
    kind: node.kind,
    op: node.op,
    name: node.name,
    about: leaf
      ? `${node.label} is a leaf: a tensor the program made, not the result of a recorded operation. Its AccumulateGrad node adds every gradient that arrives to ${node.label}.grad.`
      : `The backward of ${node.op.replace(/Backward\d*$/, "").toLowerCase()}: it takes the gradient of what it returned and computes from it the gradient of its inputs.`,
    forward: leaf
      ? null
      : `${node.op.replace(/Backward\d*$/, "").toLowerCase()}(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`,
    shape: node.shape,
    dtype: "torch.float32",
    device: "cpu",
    requires_grad: true,
    is_leaf: leaf,
    outputs: [
      {
        output_nr: 0,
        name: node.name,
        shape: node.shape,
        dtype: "torch.float32",
        device: "cpu",
        is_root: graph.roots.some((root) => root.node === id),
      },
    ],
    output_count: 1,
    saved,
    saved_count: saved.length,
    input_count: out.length + graph.nodes[id].no_grad_inputs.length,
    ...joined(graph, id, out),
    consumer_count: graph.edges.filter((edge) => edge.target === id).length,
    value: leaf ? { ...fakeTensor(node.shape ?? [], id), origin: "The tensor itself." } : null,
    value_note: leaf ? null : "Nothing is known to hold what this operation gave.",
    grad: leaf && ran ? fakeTensor(node.shape ?? [], id + 3) : null,
    grad_output: ran ? [fakeTensor(node.shape ?? [], id + 5)] : null,
    grad_input:
      ran && out.length > 0
        ? out.map((edge, i) =>
            i === 2 ? null : fakeTensor(graph.nodes[edge.target].shape ?? [], id + i),
          )
        : null,
    grad_note: {
      grad: leaf
        ? why
        : "Not a leaf, so torch drops the gradient of this tensor once it has been used: call retain_grad() on it before backward() to keep it in .grad.",
      grad_output: why,
      grad_input: leaf
        ? "A leaf is where gradients end: it adds them to .grad and passes nothing on."
        : why,
    },
    operation_count: 0,
    ...fakeStepDetails(graph, id, progress),
    ...fakeWatched(graph, id),
  };
}

/** A node's neighbours. */
function joined(
  graph: GraphModel,
  id: number,
  out: readonly EdgeModel[],
): Pick<DetailsModel, "inputs" | "consumers"> {
  const label = (target: number) => graph.nodes[target].label;
  return {
    inputs: out.map((edge) => ({
      arg_nr: edge.arg_nr ?? 0,
      argument: edge.argument,
      node: edge.target,
      output_nr: edge.output_nr,
      label: label(edge.target),
      shape: graph.nodes[edge.target].shape,
    })),
    consumers: graph.edges
      .filter((edge) => edge.target === id)
      .map((edge) => ({
        node: edge.source,
        arg_nr: edge.arg_nr ?? 0,
        argument: edge.argument,
        output_nr: edge.output_nr,
        label: label(edge.source),
      })),
  };
}

function savedTensors(
  graph: GraphModel,
  id: number,
  ran: boolean,
  edge: EdgeModel | undefined,
): SavedModel[] {
  const tensor: SavedModel[] = edge
    ? [
        {
          name: edge.argument ?? "self",
          summary: ran ? null : fakeTensor(graph.nodes[edge.target].shape ?? [], id + 7),
          scalar: null,
          freed: ran,
          note: ran
            ? "Freed by the last backward pass, which ran without retain_graph=True."
            : null,
        },
      ]
    : [];
  return [...tensor, { name: "dim", summary: null, scalar: [0, 1], freed: false, note: null }];
}

/** A summary of a tensor of this shape, with repeatable numbers; every seventh has a nan. */
function fakeTensor(shape: number[], seed: number): TensorSummary {
  const numel = shape.reduce((product, size) => product * size, 1);
  const counts = [...shape];
  while (counts.reduce((product, size) => product * size, 1) > 64) {
    const longest = counts.indexOf(Math.max(...counts));
    counts[longest] = Math.max(1, Math.ceil(counts[longest] / 2));
  }
  const truncated = counts.some((count, i) => count < shape[i]);
  let at = seed;
  const next = () => {
    at = (at * 16807 + 11) % 2147483647;
    return (at % 20000) / 7000 - 1.4;
  };
  const fill = (dim: number): Values =>
    dim === counts.length ? next() : Array.from({ length: counts[dim] }, () => fill(dim + 1));
  const bad = seed % 7 === 6;
  const values = fill(0);
  if (bad && Array.isArray(values)) values[0] = counts.length === 1 ? "nan" : values[0];
  return {
    shape,
    dtype: "torch.float32",
    device: "cpu",
    numel,
    values: numel === 0 ? [] : values,
    truncated,
    indices: truncated
      ? counts.map((count, i) =>
          Array.from({ length: count }, (_, j) =>
            count === 1 ? 0 : Math.round((j * (shape[i] - 1)) / (count - 1)),
          ),
        )
      : null,
    min: numel === 0 ? null : bad ? "nan" : -1.3982,
    max: numel === 0 ? null : bad ? "nan" : 1.4571,
    mean: numel === 0 ? null : bad ? "nan" : 0.012345,
    norm: bad ? "nan" : 12.71,
    nan: bad ? 1 : 0,
    inf: 0,
    zeros: seed % 3,
    note: null,
  };
}
