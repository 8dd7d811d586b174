import type { SceneEdge, SceneNode } from "../scene/scene";
import { flowedAt, stateAt } from "../steps/recording";
import type { NodeState } from "../wire";
import type { Marks } from "./marks";

/** What the drawing shows of backward at a node; null before any. */
export type Stage = NodeState | "reached" | null;

type EdgeStage = "flowed" | "passing" | "unreached" | null;

/** What the drawing shows of backward at a node of the graph. */
function nodeStage(id: number, { progress, ran, reached }: Marks): Stage {
  if (progress) return stateAt(progress.recording, id, progress.cursor);
  if (!ran) return null;
  return reached.has(id) ? "reached" : "not reached";
}

/** The same of an edge of the graph. */
function edgeStage(index: number, { progress, ran, flowed }: Marks): EdgeStage {
  if (!progress) return flowed.has(index) ? "flowed" : ran ? "unreached" : null;
  const { recording, cursor } = progress;
  if (recording.flows[index] === 0) return "unreached";
  if (!flowedAt(recording, index, cursor)) return null;
  return recording.flows[index] === cursor ? "passing" : "flowed";
}

/** What backward has done at a drawn node, a closed box included. */
export function stageOf(node: SceneNode, marks: Marks): Stage {
  if (!node.group) return nodeStage(node.id, marks);
  return commonStage(node.group.members.map((id) => nodeStage(id, marks)));
}

/**
 * What to show of many nodes at once: that one of them runs, else what lies furthest behind; "ready" also where some are
 * done and some are not. Those that backward never reaches count only when all are such.
 */
export function commonStage(stages: readonly Stage[]): Stage {
  const met = new Set(stages);
  if (met.has("running")) return "running";
  if (met.has("reached")) return "reached";
  const isUnderWay = met.has("done") && (met.has("waiting") || met.has("ready"));
  if (met.has("ready") || isUnderWay) return "ready";
  if (met.has("waiting")) return "waiting";
  if (met.has("done")) return "done";
  return met.has("not reached") ? "not reached" : null;
}

/** The same of a drawn edge. */
export function stageOfEdge(edge: SceneEdge, marks: Marks): EdgeStage {
  if (!edge.merged) return edgeStage(edge.index, marks);
  const met = new Set(edge.merged.edges.map((e) => edgeStage(e, marks)));
  for (const stage of ["passing", "flowed", null] as const) if (met.has(stage)) return stage;
  return "unreached";
}
