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

/**
 * A step of what is shown: one of backward's, or before that of a node that is open, each call inside of it. `step` and
 * `ready` count all of these.
 */
export interface ShownStep extends StepModel {
  /** The step of backward that it is, or is within. */
  of: number;
  /** Which of the calls inside of the node it is, from 1; 0 for backward's own step, in which the node passes on. */
  inner: number;
  /** How many calls there are inside of the node. */
  calls: number;
}

/** A recorded backward pass, looked up by node and by edge. */
export interface Recording {
  steps: readonly ShownStep[];
  /** How many of them are backward's own. */
  total: number;
  /** After how many of them so many of backward's own are over. */
  ends: Int32Array;
  run: RunModel | null;
  /** Per node, the number of the step that runs it; 0 where the run does not get. */
  step: Int32Array;
  /** Per node, the step with which it begins: of one that is open the first inside of it. */
  begin: Int32Array;
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

/** A recording and how many of its steps have run in what is shown, those inside of open nodes included. */
export interface Progress {
  recording: Recording;
  cursor: number;
}

/** Looks a checked run up by node and edge. `entered`: whether steps go through what is inside of nodes that are open. */
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
      // Without steps of its own it runs with the node that it is inside of.
      step[id] = begin[id] = step[inside];
      ready[id] = ready[inside];
    } else ready[id] = Math.min(begin[inside], step[id]);
  }
  for (const { source, target, kind } of edges) {
    // What holds no gradient is an edge the other way round: from who takes it.
    const [giver, taker] = kind === "gradient" ? [source, target] : [target, source];
    const { inside } = nodes[taker];
    if (inside === null || nodes[giver].inside !== inside || step[taker] === step[inside]) continue;
    if (nodes[giver].kind === "call")
      ready[taker] = Math.max(ready[taker], Math.min(step[giver], step[taker]));
  }
  const passed = new Map<number, number[]>();
  run?.edges.forEach((edge, i) => {
    const { source, target, via } = edges[edge];
    // The gradient that a call computes for an input of the node is passed on with the node.
    const giver = via === null ? source : (nodes[via].inside ?? source);
    const isArriving = nodes[target].inside === giver;
    flows[edge] = isArriving ? begin[giver] : step[giver];
    if (isArriving) return;
    const others = passed.get(giver);
    if (others) others.push(i);
    else passed.set(giver, [i]);
  });
  const stored = new Map((run?.grads ?? []).map((grad) => [grad.node, grad] as const));
  const marks = new Map<number, MarkModel[]>();
  for (const mark of run?.marks ?? [])
    marks.set(mark.node, [...(marks.get(mark.node) ?? []), mark]);
  const zero = new Set(run?.edges.filter((_, i) => run.norms[i] === 0) ?? []);
  const found = gradientsIn(graph, run);
  const locals = localsIn(graph, run, found.gradients);
  const looked = { step, begin, ready, flows, passed, locals, zero, stored, marks };
  return { steps, total: given.length, ends, run, ...looked, ...found };
}

/** The steps that are shown, and after how many of them each of backward's own is over. */
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

/** The calls inside of each node that is open, in the order in which they ran. */
export function callsInside({ nodes }: Pick<GraphModel, "nodes">): Map<number, number[]> {
  const calls = new Map<number, number[]>();
  for (const { id, kind, inside } of nodes) {
    if (kind !== "call" || inside === null) continue;
    const others = calls.get(inside);
    if (others) others.push(id);
    else calls.set(inside, [id]);
  }
  return calls;
}

/** After how many of the shown steps we stand: after `cursor` of backward's, the last of which stands after `inner` calls. */
export function shownCursor({ ends }: Recording, cursor: unknown, inner: number): number {
  if (!Number.isInteger(cursor)) return 0;
  const last = Math.max(0, Math.min(ends.length - 1, cursor as number));
  const within = last > 0 && inner > 0 ? ends[last - 1] + inner : ends[last];
  return Math.min(within, ends[last]);
}

/** The same the other way round; `inner` is 0 where we stand after all of a step. */
export function standsAt({ steps }: Recording, cursor: number): [cursor: number, inner: number] {
  const { of, inner } = steps[cursor - 1] ?? { of: 0, inner: 0 };
  return [of, inner];
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
    // A gradient of 0 says nothing about the factor.
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
export function stateAt(
  { step, begin, ready }: Recording,
  node: number,
  cursor: number,
): NodeState {
  if (step[node] === 0) return "not reached";
  if (cursor < ready[node]) return "waiting";
  if (cursor < begin[node]) return "ready";
  return cursor <= step[node] ? "running" : "done";
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
  // A hook may have changed the stored gradient: then it is not a sum.
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
