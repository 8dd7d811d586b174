import type { Recording } from "../steps/recording";
import type { FewModel, GraphModel, JsonNumber } from "../wire";

/** Test for a parameter: a leaf, and if leaves have dotted names, one with a dot. */
export function parametersIn({ nodes }: Pick<GraphModel, "nodes">): (id: number) => boolean {
  const isDotted = (id: number) => nodes[id].name?.includes(".") ?? false;
  const areNamed = nodes.some(({ kind, id }) => kind === "leaf" && isDotted(id));
  return (id) => nodes[id].kind === "leaf" && isDotted(id) === areNamed;
}

/** The number of elements of a shape; 0 if unknown. */
export function sizeOf(shape: readonly number[] | null): number {
  return (shape ?? [0]).reduce((product, size) => product * size, 1);
}

/** The needed part of a tree of modules; group 0 is the whole graph, and parents precede their children. */
interface Modules {
  /** Per group, its parent; -1 for the whole graph. */
  parent: ArrayLike<number>;
  /** Per graph node, its innermost group. */
  groupOf: ArrayLike<number>;
}

/** The parameters of each module, by group. */
export interface ModuleParameters {
  leaves: readonly (readonly number[])[];
  /** Their number of elements. */
  numbers: Float64Array;
}

/** A parameter belongs to all modules whose operations use it, and to the modules around those. */
export function moduleParameters(
  graph: GraphModel,
  { parent, groupOf }: Modules,
): ModuleParameters {
  const isParameter = parametersIn(graph);
  const users: number[][] = graph.nodes.map(() => []);
  for (const { source, target, kind } of graph.edges)
    if (kind === "gradient" && isParameter(target)) users[target].push(groupOf[source]);
  const leaves: number[][] = Array.from(parent, () => []);
  const numbers = new Float64Array(parent.length);
  for (const [id, used] of users.entries()) {
    const size = sizeOf(graph.nodes[id].shape);
    for (const innermost of used) {
      for (let g = innermost; g >= 0 && leaves[g].at(-1) !== id; g = parent[g]) {
        leaves[g].push(id);
        numbers[g] += size;
      }
    }
  }
  return { leaves, numbers };
}

/** The gradients of a recorded pass; without one, the `.grad` that leaves hold now. */
export type Gradients = Recording | Held;
export type Held = ReadonlyMap<number, FewModel>;

export function isRecording(gradients: Gradients): gradients is Recording {
  return "steps" in gradients;
}

/** The gradient of some parameters. */
export interface ParametersGradient {
  /** The norm of all as one vector, as in `clip_grad_norm_`; NaN if unknown, Infinity for NaN or Inf in it. */
  norm: number;
  /** The steps after which all of it has arrived; 0 if none does. */
  from: number;
  /** The number of parameters with a gradient. */
  reached: number;
}

/** The gradient of these leaves as one vector. Their `.grad` is unknown if one is unknown. */
export function parametersGradient(
  leaves: readonly number[],
  gradients: Gradients,
): ParametersGradient {
  if (!isRecording(gradients)) {
    const norms = leaves.map((id) => normOf(gradients.get(id)?.norm ?? null));
    const norm = norms.length > 0 ? Math.hypot(...norms) : Number.NaN;
    return { norm, from: 0, reached: leaves.length };
  }
  let norm = 0;
  let from = 0;
  let reached = 0;
  for (const id of leaves) {
    if (gradients.step[id] === 0) continue;
    norm = Math.hypot(norm, arrivedAt(gradients, id));
    from = Math.max(from, gradients.step[id]);
    reached++;
  }
  return { norm: reached === 0 ? Number.NaN : norm, from, reached };
}

/** The norm of a pass' contribution to a leaf's `.grad`; NaN if unknown, Infinity for NaN or Inf in it. */
function arrivedAt({ stored, gradients }: Recording, leaf: number): number {
  const grown = stored.get(leaf);
  const few = grown && grown.before === null ? grown : gradients.get(leaf);
  return normOf(few?.norm ?? null);
}

/** As a number; NaN if unknown, Infinity for NaN. */
export function normOf(norm: JsonNumber | null): number {
  if (norm === null) return Number.NaN;
  const value = Number(norm);
  return Number.isFinite(value) ? value : Number.POSITIVE_INFINITY;
}
