import type { EdgeModel } from "../wire";
import type { Scene, SceneEdge, SceneNode } from "./scene";

/** The graph nodes of a drawn node. */
export function membersOf({ id, group, also }: SceneNode): readonly number[] {
  if (group) return group.members;
  return also ? [id, ...also] : [id];
}

/** The same, and the constants in its sign. */
export function allIn(node: SceneNode): readonly number[] {
  return node.inSign ? [...membersOf(node), ...node.inSign] : membersOf(node);
}

/** Per graph node, up to `count`, the indices of its drawn nodes. */
export function drawnFor(nodes: readonly SceneNode[], count: number): number[][] {
  const drawn: number[][] = Array.from({ length: count }, () => []);
  for (const node of nodes) for (const member of allIn(node)) drawn[member].push(node.index);
  return drawn;
}

/** The graph edges of a drawn edge. */
export function edgesOf({ index, merged }: SceneEdge): readonly number[] {
  return merged ? merged.edges : [index];
}

/** The drawn edge of a graph edge; undefined if it is hidden. */
export function edgeFor({ edges, edgeOf }: Scene, index: number): SceneEdge | undefined {
  return edges[edgeOf ? edgeOf[index] : index];
}

/** The place of a node that is folded into an edge; null for other nodes. */
export function foldedAt({ edges }: Scene, node: number): { x: number; y: number } | null {
  const edge = edges.find(({ merged }) => merged?.folded.includes(node));
  if (!edge) return null;
  const sign = edge.merged?.signs.find(({ kind }) => kind === "folded");
  const [left, top, right, bottom] = edge.bounds;
  return sign ?? { x: (left + right) / 2, y: (top + bottom) / 2 };
}

/** Whether a drawn node is or contains a graph node. */
export function holds({ id, group, inSign, also }: SceneNode, node: number | null): boolean {
  if (node === null) return false;
  if (group) return group.members.includes(node);
  return id === node || inSign?.includes(node) === true || also?.includes(node) === true;
}

/** The parts of a picture that combine several nodes or edges. */
export function foldedIn(scenes: readonly Scene[]) {
  const signs = scenes.flatMap(({ edges }) => edges.flatMap(({ merged }) => merged?.signs ?? []));
  const isSeen = (kind: "count" | "folded") =>
    signs.some((sign) => sign.kind === kind && !sign.isShy);
  return {
    boxes: scenes.some(({ nodes }) => nodes.some(({ group, bar }) => group && !bar)),
    merged: isSeen("count"),
    plumbing: isSeen("folded"),
    portal: scenes.flatMap(({ edges }) => edges).find(({ portal }) => portal)?.portal,
  };
}

/** The kind of an edge without gradient, for a `SceneEdge`. */
export function edgePart(kind: EdgeModel["kind"]): Pick<SceneEdge, "quiet"> {
  return kind === "gradient" ? {} : { quiet: kind };
}
