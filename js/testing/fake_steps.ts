import { type Local, type Scalars, scalarsOf } from "../demo/scalar";
import { type Progress, stateAt } from "../steps/recording";
import type {
  ChainModel,
  ContributionModel,
  DetailsModel,
  FactorModel,
  FormulaModel,
  GraphModel,
  PathModel,
  TensorSummary,
  Values,
} from "../wire";

type StepDetails = Pick<
  DetailsModel,
  "state" | "contributions" | "contribution_count" | "formula" | "chain"
> &
  Partial<DetailsModel>;

const MOST_PATHS = 4;

/** The parts of a node's details that stepping adds. */
export function fakeStepDetails(
  graph: GraphModel,
  id: number,
  progress: Progress | null,
): StepDetails {
  const scalars = scalarsOf(graph);
  const local = scalars?.local ?? null;
  const given = progress && contributions(graph, id, progress);
  return {
    ...(progress && scalars ? trueNumbers(graph, id, scalars, progress) : {}),
    state: progress ? stateAt(progress.recording, id, progress.cursor) : "not reached",
    contributions: given,
    contribution_count: given?.length ?? 0,
    formula: formula(graph, id, local),
    chain: graph.nodes[id].kind === "leaf" && progress ? chain(graph, id, local) : null,
  };
}

/** The node's own tensor and gradient at the cursor. */
function trueNumbers(
  graph: GraphModel,
  id: number,
  { value }: Scalars,
  { recording, cursor }: Progress,
): Partial<DetailsModel> {
  const shape = graph.nodes[id].shape ?? [];
  const { run, step } = recording;
  const whole = (number: number): Values => (shape.length === 0 ? number : [number]);
  if (graph.nodes[id].kind !== "leaf") return {};
  const grown = run?.grads.find((grad) => grad.node === id);
  return {
    value: { ...small(shape, whole(value[id]), Math.abs(value[id])), origin: "The tensor itself." },
    grad: grown && step[id] <= cursor ? small(shape, grown.values, grown.norm) : null,
    grad_output: grown && step[id] <= cursor ? [small(shape, grown.values, grown.norm)] : null,
  };
}

function contributions(graph: GraphModel, id: number, { recording, cursor }: Progress) {
  const { run, step } = recording;
  const found: ContributionModel[] = [];
  let total = 0;
  run?.edges.forEach((at, i) => {
    const edge = graph.edges[at];
    if (edge.target !== id || step[edge.source] > cursor) return;
    const values = run.values[i];
    const first = firstOf(values);
    total += typeof first === "number" ? first : 0;
    const shape = graph.nodes[id].shape ?? [];
    found.push({
      step: step[edge.source],
      consumer: edge.source,
      label: graph.nodes[edge.source].label,
      arg_nr: edge.arg_nr ?? 0,
      argument: edge.argument,
      output_nr: edge.output_nr,
      grad: small(shape, values, run.norms[i]),
      total: small(
        shape,
        values === null ? null : shape.length === 0 ? total : values,
        run.norms[i],
      ),
    });
  });
  return found;
}

function formula(graph: GraphModel, id: number, local: Local[] | null): FormulaModel[] {
  return graph.edges.flatMap((edge, i): FormulaModel[] => {
    if (edge.source !== id) return [];
    const { argument } = edge;
    const arg_nr = edge.arg_nr ?? 0;
    if (local !== null) {
      const { code, numbers } = local[i];
      const source = "gradwalk" as const;
      return [{ arg_nr, argument, code, numbers: `grad * ${numbers}`, source, note: null }];
    }
    return [
      {
        arg_nr,
        argument,
        code: `${argument}: not_implemented("${graph.nodes[id].op}: ${argument}") ? grad.mm(mat2.t()).conj() : Tensor()`,
        numbers: null,
        source: "torch" as const,
        note: "This is the formula as torch's own code writes it, in C++.",
      },
    ];
  });
}

function chain(graph: GraphModel, leaf: number, local: Local[] | null): ChainModel {
  const paths = pathsTo(graph, leaf).map((edges): PathModel => {
    const factors = edges.map((edge): FactorModel => {
      const { source, target, argument } = graph.edges[edge];
      const known = local?.[edge];
      return {
        edge,
        node: source,
        target,
        code: known ? known.numbers : `∂${graph.nodes[source].label}/∂${argument}`,
        value: known ? known.value : null,
        note: known ? null : "a matrix, not a number",
      };
    });
    const product = local && edges.reduce((all, edge) => all * local[edge].value, 1);
    return {
      factors,
      written: local && edges.map((edge) => bracketed(local[edge].value)).join(" * "),
      product,
    };
  });
  const products = paths.map((path) => path.product).filter((one) => typeof one === "number");
  return {
    paths,
    total_paths: paths.length,
    written: local && products.map(bracketed).join(" + "),
    sum: local && products.reduce((sum, one) => sum + one, 0),
    note: `Along each way from the output to ${graph.nodes[leaf].label} the local derivatives are multiplied; the ways are added up.`,
  };
}

/** The first few paths from an output, as lists of edges. */
function pathsTo(graph: GraphModel, leaf: number): number[][] {
  const found: number[][] = [];
  const stack: { at: number; edges: number[] }[] = [{ at: leaf, edges: [] }];
  for (let next = stack.pop(); next && found.length < MOST_PATHS; next = stack.pop()) {
    const { at, edges } = next;
    if (graph.roots.some((root) => root.node === at)) found.push(edges);
    graph.edges.forEach((edge, i) => {
      if (edge.target === at) stack.push({ at: edge.source, edges: [i, ...edges] });
    });
  }
  return found;
}

function bracketed(value: number): string {
  return value < 0 ? `(${value})` : String(value);
}

function firstOf(values: Values | null): unknown {
  let at: unknown = values;
  while (Array.isArray(at)) at = at[0];
  return at;
}

function small(shape: number[], values: Values | null, norm: TensorSummary["norm"]): TensorSummary {
  return {
    shape,
    dtype: "torch.float32",
    device: "cpu",
    numel: shape.reduce((product, size) => product * size, 1),
    values,
    truncated: false,
    indices: null,
    min: null,
    max: null,
    mean: null,
    norm,
    nan: norm === "nan" ? 1 : 0,
    inf: 0,
    zeros: null,
    note: null,
  };
}
