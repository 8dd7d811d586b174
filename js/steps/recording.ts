import type {
  FewModel,
  GraphModel,
  GrownModel,
  MarkModel,
  NodeState,
  RunModel,
  StepModel,
  Values,
} from "../wire";

/** A recorded backward pass, looked up by node and by edge. */
export interface Recording {
  steps: readonly StepModel[];
  run: RunModel | null;
  /** Per node, the number of the step that runs it; 0 where the run does not get. */
  step: Int32Array;
  /** Per node, after how many steps all its gradients had arrived. */
  ready: Int32Array;
  /** Per edge, after how many steps it has carried its gradient; 0 for never. */
  flows: Int32Array;
  /** Per node, what it passes on: places in the edges of the run. */
  passed: ReadonlyMap<number, readonly number[]>;
  /** The gradients of the nodes with one output, all shares added up. */
  gradients: ReadonlyMap<number, FewModel>;
  /** What the `.grad` of leaves, and of what retains it, held after their steps. */
  stored: ReadonlyMap<number, GrownModel>;
  /** Per edge between two single numbers, what arrived at its start, and what that was multiplied with. */
  locals: ReadonlyMap<number, readonly [grad: number, local: number]>;
  /** Edges whose gradient is all that arrives at their end. */
  alone: ReadonlySet<number>;
  /** Edges whose gradient is exactly 0. */
  zero: ReadonlySet<number>;
  /** Nodes with an error or where NaN or Inf is born. */
  marks: ReadonlyMap<number, readonly MarkModel[]>;
}

/** A recording and how many of its steps have run in what is shown. */
export interface Progress {
  recording: Recording;
  cursor: number;
}

/** Looks a checked run up by node and edge. */
export function recordingOf(
  graph: GraphModel,
  steps: readonly StepModel[],
  run: RunModel | null,
): Recording {
  const step = new Int32Array(graph.nodes.length);
  const ready = new Int32Array(graph.nodes.length);
  const flows = new Int32Array(graph.edges.length);
  for (const one of steps) {
    step[one.node] = one.step;
    ready[one.node] = one.ready;
  }
  for (const { id, inside } of graph.nodes) {
    if (inside === null) continue; // a call runs with the compiled node that it is inside of
    step[id] = step[inside];
    ready[id] = ready[inside];
  }
  const passed = new Map<number, number[]>();
  run?.edges.forEach((edge, i) => {
    const { source } = graph.edges[edge];
    flows[edge] = step[source];
    const others = passed.get(source);
    if (others) others.push(i);
    else passed.set(source, [i]);
  });
  const stored = new Map((run?.grads ?? []).map((grad) => [grad.node, grad] as const));
  const marks = new Map<number, MarkModel[]>();
  for (const mark of run?.marks ?? [])
    marks.set(mark.node, [...(marks.get(mark.node) ?? []), mark]);
  const zero = new Set(run?.edges.filter((_, i) => run.norms[i] === 0) ?? []);
  const found = gradientsIn(graph, run);
  const locals = localsIn(graph, run, found.gradients);
  return { steps, run, step, ready, flows, passed, ...found, locals, zero, stored, marks };
}

/** The local derivatives: backward is linear, so each is what was passed on by what had arrived. */
function localsIn(
  { edges }: GraphModel,
  run: RunModel | null,
  gradients: ReadonlyMap<number, FewModel>,
): Recording["locals"] {
  const locals = new Map<number, readonly [number, number]>();
  run?.edges.forEach((edge, i) => {
    const grad = oneNumber(gradients.get(edges[edge].source)?.values ?? null);
    const passed = oneNumber(run.values[i]);
    // Of a gradient that was 0 nothing can be told.
    if (grad !== null && passed !== null && grad !== 0) locals.set(edge, [grad, passed / grad]);
  });
  return locals;
}

/** The one number that a tensor holds; null of others. */
function oneNumber(values: Values | null): number | null {
  if (Array.isArray(values)) return values.length === 1 ? oneNumber(values[0]) : null;
  return typeof values === "number" ? values : null;
}

/** What arrives at each node, and along which edges alone. */
function gradientsIn(graph: GraphModel, run: RunModel | null) {
  const gradients = new Map<number, FewModel>();
  const alone = new Set<number>();
  const outputs = new Map<number, number>();
  const uses = new Int32Array(graph.nodes.length);
  const several = new Set<number>();
  for (const { target, output_nr, kind } of graph.edges) {
    if (kind !== "gradient") continue;
    uses[target]++;
    if ((outputs.get(target) ?? output_nr) !== output_nr) several.add(target);
    outputs.set(target, output_nr);
  }
  const seeded = new Set<number>();
  for (const seed of run?.seeds ?? []) {
    seeded.add(seed.node);
    if (uses[seed.node] === 0) gradients.set(seed.node, seed);
  }
  run?.edges.forEach((edge, i) => {
    const { target } = graph.edges[edge];
    if (uses[target] !== 1 || seeded.has(target)) return;
    alone.add(edge);
    gradients.set(target, { values: run.values[i], norm: run.norms[i] });
  });
  for (const one of run?.arrived ?? []) {
    if (!several.has(one.node)) gradients.set(one.node, one);
  }
  return { gradients, alone };
}

/** Where a node stands when `cursor` steps have run. */
export function stateAt({ step, ready }: Recording, node: number, cursor: number): NodeState {
  if (step[node] === 0) return "not reached";
  if (cursor < ready[node]) return "waiting";
  if (cursor < step[node]) return "ready";
  return cursor === step[node] ? "running" : "done";
}

/** What a node's `.grad` holds since the pass, whatever changed it; null where that is not known, or None. */
export function storedNow({ stored }: Pick<Recording, "stored">, node: number): FewModel | null {
  const held = stored.get(node);
  return held?.changed ? held.now : (held ?? null);
}

/** What was in a `.grad` and what the pass added, where that is the number in it; null for anything else. */
export function addedTo(
  { stored, gradients }: Pick<Recording, "stored" | "gradients">,
  node: number,
): [before: number, added: number] | null {
  const held = stored.get(node);
  const [was, sum] = [held?.before?.values, held?.values];
  const came = gradients.get(node)?.values;
  if (typeof was !== "number" || typeof came !== "number" || typeof sum !== "number") return null;
  // A hook may have changed what is stored: then it is no sum.
  return Math.abs(was + came - sum) <= 1e-5 * Math.abs(sum) ? [was, came] : null;
}

/** Whether an edge has carried its gradient when `cursor` steps have run. */
export function flowedAt({ flows }: Recording, edge: number, cursor: number): boolean {
  return flows[edge] > 0 && flows[edge] <= cursor;
}

/** Whether the pass has come to its end, where nothing runs any more. */
export function isOver({ recording, cursor }: Progress): boolean {
  const { steps, run } = recording;
  return steps.length > 0 && cursor === steps.length && run?.ended !== "stopped";
}

/** The node that the last of `cursor` steps ran; null before the first. */
export function runningAt({ steps }: Recording, cursor: number): number | null {
  return steps[cursor - 1]?.node ?? null;
}
