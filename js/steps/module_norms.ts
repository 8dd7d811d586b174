import type { GraphModel } from "../wire";
import type { Recording } from "./recording";

/** The part of a tree of modules that is needed here; group 0 is the whole graph, and parents precede their children. */
interface Modules {
  /** Per group, the group around it; -1 for the whole graph. */
  parent: ArrayLike<number>;
  /** Per graph node, the innermost group that it lies in. */
  groupOf: ArrayLike<number>;
}

/** Which parameters belong to which module, as pairs. */
export interface ModuleParameters {
  group: readonly number[];
  /** Ids of leaves. */
  leaf: readonly number[];
  /** Per group, how many numbers its parameters hold. */
  numbers: Float64Array;
}

/** The gradients of each module's parameters in one backward pass, by group. */
export interface ModuleNorms {
  /**
   * The root of the sum of the squares of all that the pass brought its parameters, as `clip_grad_norm_` has it; where
   * every `.grad` was None before, that of the `.grad`s. NaN where nothing arrived or not all is known, Infinity where
   * there is a NaN or an infinity in it.
   */
  norm: Float64Array;
  /** After how many steps all of it has arrived; 0 where nothing does. */
  from: Int32Array;
}

/**
 * Tells parameters from other leaves: where parameters go by dotted names, a leaf without one is what the model was
 * given.
 */
export function parameterTest({ nodes }: Pick<GraphModel, "nodes">): (id: number) => boolean {
  const areNamed = nodes.some(({ kind, name }) => kind === "leaf" && name?.includes("."));
  return (id) => nodes[id].kind === "leaf" && (nodes[id].name?.includes(".") ?? false) === areNamed;
}

/** A parameter belongs to the modules whose operations use it, and to those around them; one that several share, to each of them. */
export function moduleParameters(
  graph: GraphModel,
  { parent, groupOf }: Modules,
): ModuleParameters {
  const isParameter = parameterTest(graph);
  const users: number[][] = graph.nodes.map(() => []);
  for (const { source, target, kind } of graph.edges)
    if (kind === "gradient" && isParameter(target)) users[target].push(groupOf[source]);
  const group: number[] = [];
  const leaf: number[] = [];
  const numbers = new Float64Array(parent.length);
  const last = new Int32Array(parent.length).fill(-1);
  for (const [id, used] of users.entries()) {
    const size = (graph.nodes[id].shape ?? [0]).reduce((product, length) => product * length, 1);
    for (const innermost of used) {
      for (let g = innermost; g >= 0 && last[g] !== id; g = parent[g]) {
        last[g] = id;
        group.push(g);
        leaf.push(id);
        numbers[g] += size;
      }
    }
  }
  return { group, leaf, numbers };
}

/** The norm of each module's gradient. Linear in the pairs of modules and parameters. */
export function moduleNorms(
  { group, leaf, numbers }: ModuleParameters,
  { gradients, stored, step }: Recording,
): ModuleNorms {
  const from = new Int32Array(numbers.length);
  // As in a norm of norms that cannot overflow: the largest, and the squares as shares of it.
  const largest = new Float64Array(numbers.length);
  const norms = leaf.map((id) => {
    if (step[id] === 0) return null;
    const held = stored.get(id);
    const norm = (gradients.get(id) ?? (held?.before === null ? held : undefined))?.norm ?? null;
    if (norm === null) return Number.NaN;
    return Number.isFinite(Number(norm)) ? Number(norm) : Number.POSITIVE_INFINITY;
  });
  norms.forEach((norm, i) => {
    if (norm === null) return;
    const g = group[i];
    from[g] = Math.max(from[g], step[leaf[i]]);
    // NaN stays NaN.
    if (!(norm <= largest[g]) && !Number.isNaN(largest[g])) largest[g] = norm;
  });
  const squares = new Float64Array(numbers.length);
  norms.forEach((norm, i) => {
    const most = largest[group[i]];
    if (norm !== null && most > 0 && most < Number.POSITIVE_INFINITY)
      squares[group[i]] += (norm / most) ** 2;
  });
  return {
    norm: largest.map((most, g) => {
      if (from[g] === 0) return Number.NaN;
      return most > 0 && most < Number.POSITIVE_INFINITY ? most * Math.sqrt(squares[g]) : most;
    }),
    from,
  };
}
