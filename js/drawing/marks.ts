import { flowedAt, type Progress, stateAt } from "../steps/recording";
import type { NodeState } from "../wire";
import type { Scene, SceneEdge, SceneNode } from "./scene";

/** What is marked in the drawing at one moment. Node ids, except where it says otherwise. */
export interface Marks {
  /** Whether a backward pass was seen. */
  ran: boolean;
  reached: ReadonlySet<number>;
  /** Places of edges. */
  flowed: ReadonlySet<number>;
  freed: ReadonlySet<number>;
  /** Where stepping through backward has got; it then says more than what was reached and flowed. */
  progress: Progress | null;
  selected: number | null;
  hovered: number | null;
  /** Index of the drawn node that the keyboard is on. */
  focused: number | null;
  /** What a search found; null when nothing is searched. */
  hits: ReadonlySet<number> | null;
  hit: number | null;
}

export const NO_MARKS: Marks = {
  ran: false,
  reached: new Set(),
  flowed: new Set(),
  freed: new Set(),
  progress: null,
  selected: null,
  hovered: null,
  focused: null,
  hits: null,
  hit: null,
};

/** Whether the edge belongs to the node that is hovered or selected, in any of its copies. */
function isLit(edge: SceneEdge, { nodes }: Scene, marks: Marks): boolean {
  const ends = [nodes[edge.source].id, nodes[edge.target].id];
  return ends.some((id) => id === marks.hovered || id === marks.selected);
}

/** Ids of the nodes at the other ends of the hovered node's edges. */
export function neighbours(scene: Scene, marks: Marks): Set<number> {
  const near = new Set<number>();
  if (marks.hovered === null) return near;
  for (const edge of scene.edges) {
    const source = scene.nodes[edge.source].id;
    const target = scene.nodes[edge.target].id;
    if (source === marks.hovered) near.add(target);
    if (target === marks.hovered) near.add(source);
  }
  return near;
}

/** What the drawing shows of backward at a node; null before any. */
export function nodeStage(
  id: number,
  { progress, ran, reached }: Marks,
): NodeState | "reached" | null {
  if (progress) return stateAt(progress.recording, id, progress.cursor);
  if (!ran) return null;
  return reached.has(id) ? "reached" : "not reached";
}

/** The same of an edge. */
export function edgeStage(
  index: number,
  source: number,
  { progress, ran, flowed }: Marks,
): "flowed" | "passing" | "unreached" | null {
  if (!progress) return flowed.has(index) ? "flowed" : ran ? "unreached" : null;
  const { recording, cursor } = progress;
  if (recording.flows[index] === 0) return "unreached";
  if (!flowedAt(recording, index, cursor)) return null;
  return recording.step[source] === cursor ? "passing" : "flowed";
}

export function nodeClass(node: SceneNode, marks: Marks, near: ReadonlySet<number>): string {
  const { id, index, leaf, root, copies } = node;
  const stage = nodeStage(id, marks);
  const flags: [boolean, string][] = [
    [leaf, "gw-leaf"],
    [!leaf, "gw-op"],
    [root, "gw-root"],
    [copies > 1, "gw-copy"],
    [stage !== null, STAGE_CLASS[stage ?? "reached"]],
    [marks.freed.has(id), "is-freed"],
    [marks.selected === id, "is-selected"],
    [marks.hovered === id, "is-hovered"],
    [near.has(id), "is-near"],
    [marks.focused === index, "is-focused"],
    [marks.hits?.has(id) ?? false, "is-hit"],
    [marks.hit === id, "is-current-hit"],
    [marks.hits !== null && !marks.hits.has(id), "is-dim"],
  ];
  return classes("gw-node", flags);
}

export function edgeClass(edge: SceneEdge, scene: Scene, marks: Marks): string {
  const stage = edgeStage(edge.index, scene.nodes[edge.source].id, marks);
  return classes("gw-edge", [
    [stage === "flowed" || stage === "passing", "is-flowed"],
    [stage === "passing", "is-passing"],
    [stage === "unreached", "is-unreached"],
    [isLit(edge, scene, marks), "is-lit"],
    [marks.hits !== null, "is-dim"],
  ]);
}

const STAGE_CLASS: Record<NodeState | "reached", string> = {
  reached: "is-reached",
  waiting: "is-waiting",
  ready: "is-ready",
  running: "is-running",
  done: "is-done",
  "not reached": "is-unreached",
};

function classes(base: string, flags: readonly [boolean, string][]): string {
  let text = base;
  for (const [on, name] of flags) if (on) text += ` ${name}`;
  return text;
}
