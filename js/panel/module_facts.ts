import type { GradientNorms } from "../colours/norms";
import { namespacesOf } from "../fold/tree";
import { type Marks, NO_MARKS } from "../paint/marks";
import { classOf, isPart, isStep } from "../scene/module_class";
import { parametersGradient, parametersIn, sizeOf } from "../scene/parameters";
import { isWork } from "../scene/shown_graph";
import type { Recording } from "../steps/recording";
import type { GraphModel, MemoryModel } from "../wire";

export interface ModuleFacts {
  /** User text; null if unknown. */
  kind: string | null;
  /** Whether the modules are inferred rather than watched. */
  isInferred: boolean;
  /** Its operations with their counts. */
  operations: [string, number][];
  /** The parameters that its operations use or that it owns. */
  parameters: number[];
  /** The parameters' number of elements. */
  numbers: number;
  /** Its inputs from outside, and its outputs. */
  inputs: number[];
  outputs: number[];
  /** Saved for backward: by its own operations, and including its submodules. */
  own: number;
  bytes: number;
  gradients: ModuleGradients | null;
  /** Without a recorded pass, the norm of what all of its parameters' `.grad` hold now; NaN if unknown. */
  held: number;
  /** Whether a pass ran that was not recorded. */
  isUnrecorded: boolean;
}

/** The signs of passes that were not recorded. */
type Seen = Pick<Marks, "ran" | "held">;

/** A module's gradients in a pass. NaN norms are Infinity. */
interface ModuleGradients {
  /** Norms of the incoming and the outgoing gradients. */
  arrived: number[];
  passedOn: number[];
  /** The number of its parameters whose `.grad` grew. */
  stored: number;
  /** The numbers of its nodes with only zeros, and with NaN or Inf. */
  dead: number;
  notFinite: number;
}

/** Compute a module's facts. A shared parameter counts in each module. */
export function moduleFacts(
  graph: GraphModel,
  paths: readonly string[],
  memory: MemoryModel | null = null,
  pass: { recording: Recording; norms: GradientNorms } | null = null,
  { ran, held }: Seen = NO_MARKS,
): ModuleFacts {
  const { nodes, edges } = graph;
  const spaces = namespacesOf(graph);
  const inside = spaces.map((space) =>
    paths.some((path) => space === path || space.startsWith(`${path}/`)),
  );
  const isParameter = parametersIn(graph);
  const parameters = new Set(
    nodes.map(({ id }) => id).filter((id) => inside[id] && isParameter(id)),
  );
  const inputs = new Set<number>();
  const outputs = new Set(graph.roots.map(({ node }) => node).filter((id) => inside[id]));
  const arrived: number[] = [];
  const passedOn: number[] = [];
  const note = (norms: number[], norm: number | undefined) => {
    if (norm !== undefined && !Number.isNaN(norm)) norms.push(norm);
  };
  edges.forEach(({ source, target, kind }, i) => {
    if (inside[source] && isParameter(target)) parameters.add(target);
    else if (inside[source] && (!inside[target] || nodes[target].kind === "leaf")) {
      inputs.add(target);
      note(passedOn, pass?.norms.edges[i]);
    } else if (inside[target] && !inside[source] && !isParameter(target)) {
      outputs.add(target);
      if (kind === "gradient") note(arrived, pass?.norms.edges[i]);
    }
  });
  for (const { node, norm } of pass?.recording.run?.seeds ?? [])
    if (inside[node] && norm !== null) note(arrived, finite(Number(norm)));

  const counts = new Map<string, number>();
  for (const node of nodes)
    if (inside[node.id] && isWork(node)) counts.set(node.op, (counts.get(node.op) ?? 0) + 1);
  const bytesOf = (holds: (id: number) => boolean) =>
    (memory?.nodes ?? []).reduce(
      (sum, id, i) => sum + (holds(id) ? (memory?.bytes[i] ?? 0) : 0),
      0,
    );
  const count = (norm: number) =>
    nodes.filter(({ id }) => inside[id] && pass?.norms.nodes[id] === norm).length;
  return {
    kind: classOf(graph, paths[0]),
    isInferred:
      isStep(paths[0]) ||
      isPart(paths[0]) ||
      nodes.some(({ id, kind, inferred }) => inside[id] && kind === "op" && inferred),
    operations: [...counts].sort((a, b) => b[1] - a[1]),
    // In the model's order: nodes are numbered from the outputs.
    parameters: [...parameters].sort((a, b) => b - a),
    numbers: [...parameters].reduce((sum, id) => sum + sizeOf(nodes[id].shape), 0),
    inputs: [...inputs],
    outputs: [...outputs],
    own: bytesOf((id) => paths.includes(spaces[id])),
    bytes: bytesOf((id) => inside[id]),
    held: pass ? Number.NaN : parametersGradient([...parameters], held).norm,
    isUnrecorded: !pass && (ran || held.size > 0),
    gradients: pass && {
      arrived,
      passedOn,
      stored: [...parameters].filter((id) => pass.recording.step[id] > 0).length,
      dead: count(0),
      notFinite: count(Number.POSITIVE_INFINITY),
    },
  };
}

function finite(norm: number): number {
  return Number.isFinite(norm) ? norm : Number.POSITIVE_INFINITY;
}
