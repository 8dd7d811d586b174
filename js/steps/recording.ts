import { listsBy, valueAt } from "../maps";
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

/** A step of backward, or a call inside an open node, before its node's step. `step` and `ready` count all of these. */
export interface ShownStep extends StepModel {
  /** Its step of backward. */
  of: number;
  /** The number of its call inside the node, from 1; 0 for backward's own step, after all calls. */
  inner: number;
  /** The number of calls inside the node. */
  calls: number;
}

/** A recorded backward pass, looked up by node and by edge. */
export interface Recording {
  steps: readonly ShownStep[];
  /** The number of backward's own steps. */
  total: number;
  /** Per number of backward's own steps, the shown steps that complete them. */
  ends: Int32Array;
  run: RunModel | null;
  /** Per node, the number of its step; 0 if the run does not reach it. */
  step: Int32Array;
  /** Per node, its first step: in an open one, its first call. */
  begin: Int32Array;
  /** Per node, the steps after which all its gradients have arrived. */
  ready: Int32Array;
  /** Per edge, the steps after which its gradient has flowed; 0 for never. */
  flows: Int32Array;
  /** Per node, its outgoing edges, as indices in the run. */
  passed: ReadonlyMap<number, readonly number[]>;
  /** The gradients of the nodes with one output, contributions summed. */
  gradients: ReadonlyMap<number, FewModel>;
  /** The `.grad` of leaves and of retaining nodes after their steps. */
  stored: ReadonlyMap<number, GrownModel>;
  /** Per edge between single numbers, the incoming gradient and its factor. */
  locals: ReadonlyMap<number, readonly [grad: number, local: number]>;
  /** Edges with the only contribution to their node. */
  alone: ReadonlySet<number>;
  /** Edges whose gradient is exactly 0. */
  zero: ReadonlySet<number>;
  /** Nodes with an error or where NaN or Inf is born. */
  marks: ReadonlyMap<number, readonly MarkModel[]>;
}

/** A recording and the number of completed shown steps, calls inside open nodes included. */
export interface Progress {
  recording: Recording;
  cursor: number;
}

/** Index a checked run by node and edge. `entered`: whether steps include calls inside open nodes. */
export function recordingOf(
  graph: GraphModel,
  given: readonly StepModel[],
  run: RunModel | null,
  entered = true,
): Recording {
  const { nodes, edges } = graph;
  const [steps, ends] = shownSteps(graph, given, entered);
  const step = new Int32Array(nodes.length);
  const ready = new Int32Array(nodes.length);
  const flows = new Int32Array(edges.length);
  for (const one of steps) {
    step[one.node] = one.step;
    ready[one.node] = one.ready;
  }
  const begin = step.slice();
  for (const { node, step: number, inner } of steps) {
    if (inner === 1) begin[nodes[node].inside ?? node] = number;
  }
  for (const { id, inside } of nodes) {
    if (inside === null) continue;
    if (step[id] === 0) {
      // Without its own steps it runs with the node around it.
      step[id] = begin[id] = step[inside];
      ready[id] = ready[inside];
    } else ready[id] = Math.min(begin[inside], step[id]);
  }
  for (const { source, target, kind } of edges) {
    // An edge without gradient points from its user.
    const [from, to] = kind === "gradient" ? [source, target] : [target, source];
    const { inside } = nodes[to];
    if (inside === null || nodes[from].inside !== inside || step[to] === step[inside]) continue;
    if (nodes[from].kind === "call")
      ready[to] = Math.max(ready[to], Math.min(step[from], step[to]));
  }
  const passed = new Map<number, number[]>();
  run?.edges.forEach((edge, i) => {
    const { source, target, via } = edges[edge];
    // A call's gradient for an input of its node is passed on with the node.
    const from = via === null ? source : (nodes[via].inside ?? source);
    const isArriving = nodes[target].inside === from;
    flows[edge] = isArriving ? begin[from] : step[from];
    if (isArriving) return;
    valueAt(passed, from, () => []).push(i);
  });
  const stored = new Map((run?.grads ?? []).map((grad) => [grad.node, grad] as const));
  const marks = listsBy(run?.marks ?? [], ({ node }) => node);
  const zero = new Set(run?.edges.filter((_, i) => run.norms[i] === 0) ?? []);
  const found = gradientsIn(graph, run);
  const locals = localsIn(graph, run, found.gradients);
  const looked = { step, begin, ready, flows, passed, locals, zero, stored, marks };
  return { steps, total: given.length, ends, run, ...looked, ...found };
}

/** The gradient along an edge, by the edge's index in the run. */
export function passedIn({ values, norms }: RunModel, i: number): FewModel {
  return { values: values[i], norm: norms[i] };
}

/** The shown steps, and how many complete each of backward's own. */
function shownSteps(
  graph: GraphModel,
  given: readonly StepModel[],
  entered: boolean,
): [ShownStep[], Int32Array] {
  const ends = new Int32Array(given.length + 1);
  if (!entered) return [given.map((one) => ({ ...one, of: one.step, inner: 0, calls: 0 })), ends];
  const calls = callsInside(graph);
  const steps: ShownStep[] = [];
  given.forEach((one, i) => {
    const inside = calls.get(one.node) ?? [];
    const shared = { ready: ends[one.ready], of: one.step, calls: inside.length };
    inside.forEach((node, place) => {
      const { op, name } = graph.nodes[node];
      const own = { step: steps.length + 1, node, op, name, accumulated: null };
      steps.push({ ...own, ...shared, inner: place + 1 });
    });
    steps.push({ ...one, ...shared, step: steps.length + 1, inner: 0 });
    ends[i + 1] = steps.length;
  });
  return [steps, ends];
}

/** The calls inside each open node, in the order of their execution. */
export function callsInside({ nodes }: Pick<GraphModel, "nodes">): Map<number, number[]> {
  return listsBy(nodes.keys(), (id) => (nodes[id].kind === "call" ? nodes[id].inside : null));
}

/** The number of completed shown steps, from `cursor` of backward's own and `inner` calls of the last one. */
export function shownCursor({ ends }: Recording, cursor: unknown, inner: number): number {
  if (!Number.isInteger(cursor)) return 0;
  const last = Math.max(0, Math.min(ends.length - 1, cursor as number));
  const within = last > 0 && inner > 0 ? ends[last - 1] + inner : ends[last];
  return Math.min(within, ends[last]);
}

/** The reverse; `inner` is 0 after a complete step. */
export function backwardCursor(
  { steps }: Recording,
  cursor: number,
): [cursor: number, inner: number] {
  const { of, inner } = steps[cursor - 1] ?? { of: 0, inner: 0 };
  return [of, inner];
}

/** The local derivatives. Backward is linear, so each is the outgoing gradient divided by the incoming one. */
function localsIn(
  { edges }: GraphModel,
  run: RunModel | null,
  gradients: ReadonlyMap<number, FewModel>,
): Recording["locals"] {
  const locals = new Map<number, readonly [number, number]>();
  run?.edges.forEach((edge, i) => {
    const grad = oneNumber(gradients.get(edges[edge].source)?.values ?? null);
    const passed = oneNumber(run.values[i]);
    // A gradient of 0 does not determine the factor.
    if (grad !== null && passed !== null && grad !== 0) locals.set(edge, [grad, passed / grad]);
  });
  return locals;
}

/** The number of a tensor with one element; null for others. */
function oneNumber(values: Values | null): number | null {
  if (Array.isArray(values)) return values.length === 1 ? oneNumber(values[0]) : null;
  return typeof values === "number" ? values : null;
}

/** Each node's incoming gradient, and the edges that are its only contribution. */
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
    gradients.set(target, passedIn(run, i));
  });
  for (const one of run?.arrived ?? []) {
    if (!several.has(one.node)) gradients.set(one.node, one);
  }
  return { gradients, alone };
}

/** A node's state after `cursor` steps. */
export function stateAt(
  { step, begin, ready }: Recording,
  node: number,
  cursor: number,
): NodeState {
  if (!step[node]) return "not reached"; // constants and cuts have no step
  if (cursor < ready[node]) return "waiting";
  if (cursor < begin[node]) return "ready";
  return cursor <= step[node] ? "running" : "done";
}

/** A node's `.grad` after the pass, with later changes; null if unknown or None. */
export function storedNow({ stored }: Pick<Recording, "stored">, node: number): FewModel | null {
  const held = stored.get(node);
  return held?.changed ? held.now : (held ?? null);
}

/** The earlier value of a `.grad` and the pass' contribution, if their sum is its value; null otherwise. */
export function addedTo(
  { stored, gradients }: Pick<Recording, "stored" | "gradients">,
  node: number,
): [before: number, added: number] | null {
  const held = stored.get(node);
  const [was, sum] = [held?.before?.values, held?.values];
  const came = gradients.get(node)?.values;
  if (typeof was !== "number" || typeof came !== "number" || typeof sum !== "number") return null;
  // A hook may have changed the stored gradient.
  return Math.abs(was + came - sum) <= 1e-5 * Math.abs(sum) ? [was, came] : null;
}

/** Whether an edge's gradient has flowed after `cursor` steps. */
export function flowedAt({ flows }: Recording, edge: number, cursor: number): boolean {
  return flows[edge] > 0 && flows[edge] <= cursor;
}

/** Whether the pass is finished. */
export function isOver({ recording, cursor }: Progress): boolean {
  const { steps, run } = recording;
  return steps.length > 0 && cursor === steps.length && run?.ended !== "stopped";
}

/** The node of the last of `cursor` steps; null before the first. */
export function runningAt({ steps }: Recording, cursor: number): number | null {
  return steps[cursor - 1]?.node ?? null;
}
