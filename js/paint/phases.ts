import type { SceneEdge, SceneNode } from "../scene/scene";
import { flowedAt, isOver, runningAt, stateAt } from "../steps/recording";
import type { NodeState } from "../wire";
import type { Marks } from "./marks";

/** The state of backward at a node; null before any. */
export type Phase = NodeState | "reached" | null;

type EdgePhase = "flowed" | "passing" | "unreached" | null;

/** The state of backward at a graph node. */
function nodePhase(id: number, { progress, ran, reached }: Marks): Phase {
  if (progress) {
    const state = stateAt(progress.recording, id, progress.cursor);
    return state === "running" && isOver(progress) ? "done" : state;
  }
  if (!ran) return null;
  return reached.has(id) ? "reached" : "not reached";
}

/** The state of backward at a graph edge. */
function edgePhase(index: number, { progress, ran, flowed }: Marks): EdgePhase {
  if (!progress) return flowed.has(index) ? "flowed" : ran ? "unreached" : null;
  const { recording, cursor } = progress;
  if (recording.flows[index] === 0) return "unreached";
  if (!flowedAt(recording, index, cursor)) return null;
  return recording.flows[index] === cursor && !isOver(progress) ? "passing" : "flowed";
}

/** The step number at a drawn node, "2", in an open one "2.1"; "" for none. Cards have one only while stepping. */
export function stepOf({ id, group, shape }: SceneNode, { progress }: Marks): string {
  if (!progress || group) return "";
  if (shape.card && (progress.cursor === 0 || isOver(progress))) return "";
  const { steps, step } = progress.recording;
  const { of, inner } = steps[step[id] - 1] ?? { of: "", inner: 0 };
  return inner > 0 ? `${of}.${inner}` : String(of);
}

/** The state of backward at a drawn node or closed box. */
export function phaseOf(node: SceneNode, marks: Marks): Phase {
  if (!node.group) return nodePhase(node.id, marks);
  return commonPhase(node.group.members.map((id) => nodePhase(id, marks)));
}

/**
 * The common state of many nodes: "running" if one runs, else the earliest state; "ready" also if only some are done.
 * Nodes that backward never reaches count only if all are such.
 */
export function commonPhase(phases: readonly Phase[]): Phase {
  const met = new Set(phases);
  if (met.has("running")) return "running";
  if (met.has("reached")) return "reached";
  const isUnderWay = met.has("done") && (met.has("waiting") || met.has("ready"));
  if (met.has("ready") || isUnderWay) return "ready";
  if (met.has("waiting")) return "waiting";
  if (met.has("done")) return "done";
  return met.has("not reached") ? "not reached" : null;
}

/** Whether the running node is folded into a drawn edge. */
export function runsIn({ merged }: SceneEdge, { progress }: Marks): boolean {
  if (!progress || !merged || merged.folded.length === 0 || isOver(progress)) return false;
  const running = runningAt(progress.recording, progress.cursor);
  return running !== null && merged.folded.includes(running);
}

/** The same of a drawn edge. */
export function phaseOfEdge(edge: SceneEdge, marks: Marks): EdgePhase {
  if (!edge.merged) return edgePhase(edge.index, marks);
  const met = new Set(edge.merged.edges.map((e) => edgePhase(e, marks)));
  for (const phase of ["passing", "flowed", null] as const) if (met.has(phase)) return phase;
  return "unreached";
}
