import type { Scene, SceneEdge, SceneNode } from "../scene/scene";
import { flowedAt, stateAt } from "../steps/recording";
import type { NodeState } from "../wire";
import type { Marks } from "./marks";

/** What the drawing shows of backward at a node; null before any. */
export type Stage = NodeState | "reached" | null;

export type EdgeStage = "flowed" | "passing" | "unreached" | null;

/** What the drawing shows of backward at a node of the graph. */
export function nodeStage(id: number, { progress, ran, reached }: Marks): Stage {
  if (progress) return stateAt(progress.recording, id, progress.cursor);
  if (!ran) return null;
  return reached.has(id) ? "reached" : "not reached";
}

/** The same of an edge of the graph. */
export function edgeStage(index: number, { progress, ran, flowed }: Marks): EdgeStage {
  if (!progress) return flowed.has(index) ? "flowed" : ran ? "unreached" : null;
  const { recording, cursor } = progress;
  if (recording.flows[index] === 0) return "unreached";
  if (!flowedAt(recording, index, cursor)) return null;
  return recording.flows[index] === cursor ? "passing" : "flowed";
}

/** The graph's nodes that a drawn node stands for. */
export function membersOf({ id, group }: SceneNode): readonly number[] {
  return group ? group.members : [id];
}

/** The graph's edges that a drawn edge is made of. */
export function edgesOf({ index, merged }: SceneEdge): readonly number[] {
  return merged ? merged.edges : [index];
}

/** Where a node is seen that is folded into an edge; null if it is not. */
export function foldedAt({ edges }: Scene, node: number): { x: number; y: number } | null {
  const edge = edges.find(({ merged }) => merged?.folded.includes(node));
  if (!edge) return null;
  const sign = edge.merged?.signs.find(({ kind }) => kind === "folded");
  const [left, top, right, bottom] = edge.bounds;
  return sign ?? { x: (left + right) / 2, y: (top + bottom) / 2 };
}

/** Whether a drawn node is or contains a node of the graph. */
export function holds({ id, group }: SceneNode, node: number | null): boolean {
  return node !== null && (group ? group.members.includes(node) : id === node);
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

/** What of a picture stands for several nodes or edges. */
export function foldedIn(scene: Scene | null) {
  const merged = (scene?.edges ?? []).map((edge) => edge.merged);
  return {
    boxes: scene?.nodes.some(({ group }) => group) ?? false,
    merged: merged.some((one) => one !== undefined && one.count > 1),
    plumbing: merged.some((one) => one !== undefined && one.folded.length > 0),
  };
}
