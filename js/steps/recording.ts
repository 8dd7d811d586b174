import type { GraphModel, MarkModel, NodeState, RunModel, StepModel } from "../wire";

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
  for (const edge of run?.edges ?? []) flows[edge] = step[graph.edges[edge].source];
  const marks = new Map<number, MarkModel[]>();
  for (const mark of run?.marks ?? [])
    marks.set(mark.node, [...(marks.get(mark.node) ?? []), mark]);
  return { steps, run, step, ready, flows, marks };
}

/** Where a node stands when `cursor` steps have run. */
export function stateAt({ step, ready }: Recording, node: number, cursor: number): NodeState {
  if (step[node] === 0) return "not reached";
  if (cursor < ready[node]) return "waiting";
  if (cursor < step[node]) return "ready";
  return cursor === step[node] ? "running" : "done";
}

/** Whether an edge has carried its gradient when `cursor` steps have run. */
export function flowedAt({ flows }: Recording, edge: number, cursor: number): boolean {
  return flows[edge] > 0 && flows[edge] <= cursor;
}

/** The node that the last of `cursor` steps ran; null before the first. */
export function runningAt({ steps }: Recording, cursor: number): number | null {
  return steps[cursor - 1]?.node ?? null;
}
