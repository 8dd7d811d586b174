import { allIn, holds, membersOf } from "../scene/members";
import type { Scene, SceneEdge, SceneNode } from "../scene/scene";
import { flowedAt, isOver, runningAt } from "../steps/recording";
import type { NodeState } from "../wire";
import type { Marks } from "./marks";
import { phaseOf, phaseOfEdge, runsIn } from "./phases";
import { tileAt, tintOf } from "./tiles";

/** Whether the edge touches the hovered or selected node, in any copy. */
function isLit(edge: SceneEdge, { nodes }: Scene, { hovered, selected }: Marks): boolean {
  const ends = [edge.source, edge.target, ...(edge.bars ?? [])].map((index) => nodes[index]);
  return ends.some((end) => end.id === hovered || holds(end, selected));
}

/** Ids of the hovered node's neighbours. */
export function neighbours(scene: Scene, marks: Marks): Set<number> {
  const near = new Set<number>();
  if (marks.hovered === null) return near;
  for (const edge of scene.edges) {
    const [source, target] = [edge.source, edge.target].map((end) => idsAt(edge, end, scene));
    if (source.includes(marks.hovered)) for (const id of target) near.add(id);
    if (target.includes(marks.hovered)) for (const id of source) near.add(id);
  }
  return near;
}

/** The id of an edge's source or target, or the ids of all its bars there. */
function idsAt({ bars }: SceneEdge, end: number, { nodes }: Scene): number[] {
  const { id, bar } = nodes[end];
  if (!bar || !bars) return [id];
  return bars
    .map((index) => nodes[index])
    .flatMap((one) => (one.bar?.strip === bar.strip ? one.id : []));
}

export function nodeClass(node: SceneNode, marks: Marks, near: ReadonlySet<number>): string {
  const { id, index, leaf, root, isCopy, quiet } = node;
  const found = quiet ? null : phaseOf(node, marks);
  // After the pass, a card looks as before, with its gradient; so does a sign between boxes.
  const phase =
    found === "done" &&
    marks.progress &&
    isOver(marks.progress) &&
    (node.shape.card || node.shape.sign)
      ? "reached"
      : found;
  const { freed, isPartlyFreed, selected, hits, hit } = marks;
  const tint = tintOf(node, marks);
  const some = (ids: ReadonlySet<number>) => membersOf(node).some((member) => ids.has(member));
  const isHit = hits !== null && allIn(node).some((member) => hits.has(member));
  const flags: [boolean, string][] = [
    [leaf, "gw-leaf"],
    [!leaf && !quiet, "gw-op"],
    [quiet !== undefined, `gw-quiet gw-${quiet}`],
    [root, "gw-root"],
    [isCopy === true, "gw-copy"],
    [phase !== null, PHASE_CLASS[phase ?? "reached"]],
    [node.bar !== undefined, barClass(node)],
    [node.bar !== undefined && !tileAt(node, marks), "is-unknown"],
    [node.group !== undefined && !node.bar, "gw-closed"],
    [node.shape.tile?.isLayer === true, "gw-single"],
    [node.shape.sign !== undefined, "gw-sign"],
    [node.shape.sign === "round", "gw-round"],
    [node.shape.card !== undefined, "gw-card"],
    [isPartlyFreed && some(freed), "is-freed"],
    [holds(node, selected) || isModule(node, marks), "is-selected"],
    [marks.hovered === id, "is-hovered"],
    [near.has(id), "is-near"],
    [marks.focused === index, "is-focused"],
    [isHit, "is-hit"],
    [holds(node, hit), "is-current-hit"],
    [hits !== null && !isHit, "is-dim"],
    [tint !== "" && !node.bar, `is-tinted ${tint}`],
  ];
  return classes("gw-node", flags);
}

/** A thinner bar would be only outline, px. */
const THIN = 6;

function barClass({ shape: { width, height } }: SceneNode): string {
  return Math.min(width, height) < THIN ? "gw-strip-bar is-thin" : "gw-strip-bar";
}

/** Whether it is the box of the selected module. */
export function isModule({ group }: SceneNode, { module }: Marks): boolean {
  return module !== null && group?.paths.includes(module[0]) === true;
}

/** Browsers take long to move the dashes of more lines, some of which cross the whole picture. */
const MOST_DASHED = 400;

/**
 * The class of a line whose gradient was not recorded. It is dashed while one can come: not once a
 * pass before the widget was made has freed what the nodes saved.
 */
export function pendingClass({ edges }: Scene, isFreed: boolean): string {
  return isFreed || edges.length > MOST_DASHED ? "is-pending is-plain" : "is-pending";
}

export function edgeClass(edge: SceneEdge, scene: Scene, marks: Marks): string {
  const phase = edge.quiet ? null : phaseOfEdge(edge, marks);
  const isFreed = marks.progress === null && marks.freed.size > 0;
  return classes("gw-edge", [
    [edge.quiet !== undefined, `is-quiet is-${edge.quiet}`],
    [phase === "flowed" || phase === "passing", "is-flowed"],
    [phase === "passing", "is-passing"],
    [(phase === "flowed" || phase === "passing") && isZero(edge, marks), "is-zero"],
    [phase === "unreached", "is-unreached"],
    [phase === null && !edge.quiet && !scene.isStatic, pendingClass(scene, isFreed)],
    [runsIn(edge, marks), "is-running"],
    [edge.merged !== undefined && edge.merged.count > 1, "is-merged"],
    [Boolean(marks.tint?.edges[edge.index]), `is-tinted ${marks.tint?.edges[edge.index]}`],
    [phase === "flowed" || phase === "passing", marks.widths?.edges[edge.index] ?? ""],
    [isLit(edge, scene, marks), "is-lit"],
    [marks.hits !== null, "is-dim"],
  ]);
}

/** Whether an edge's gradient is exactly 0. */
function isZero({ index, merged }: SceneEdge, { progress }: Marks): boolean {
  const edges = merged?.edges ?? [index];
  return progress !== null && edges.every((edge) => progress.recording.zero.has(edge));
}

/** Whether an edge leads a gradient into the running node, which has a ring. */
export function isRinged(
  { target, index, quiet, merged }: SceneEdge,
  { nodes }: Scene,
  marks: Marks,
): boolean {
  const { progress } = marks;
  if (!progress || isOver(progress) || quiet !== undefined) return false;
  const node = nodes[target];
  return (
    !node.bar &&
    holds(node, runningAt(progress.recording, progress.cursor)) &&
    (merged?.edges ?? [index]).some((e) => flowedAt(progress.recording, e, progress.cursor))
  );
}

/** Edge indices, those with a gradient of exactly 0 first: on a shared line the others are on top. */
export function zerosFirst(
  edges: readonly number[],
  scene: Scene,
  marks: Marks,
): readonly number[] {
  if (!marks.progress || marks.progress.recording.zero.size === 0) return edges;
  const is = edges.map((e) => isZero(scene.edges[e], marks));
  return [...edges.filter((_, i) => is[i]), ...edges.filter((_, i) => !is[i])];
}

const PHASE_CLASS: Record<NodeState | "reached", string> = {
  reached: "is-reached",
  waiting: "is-waiting",
  ready: "is-ready",
  running: "is-running",
  done: "is-done",
  "not reached": "is-unreached",
};

function classes(base: string, flags: readonly [boolean, string][]): string {
  let text = base;
  for (const [on, name] of flags) if (on && name !== "") text += ` ${name}`;
  return text;
}
