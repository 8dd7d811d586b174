import type { Scene, SceneEdge, SceneNode } from "./scene";

/** What is marked in the drawing at one moment. Node ids, except where it says otherwise. */
export interface Marks {
  /** Whether a backward pass was seen. */
  ran: boolean;
  reached: ReadonlySet<number>;
  /** Places of edges. */
  flowed: ReadonlySet<number>;
  freed: ReadonlySet<number>;
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

export function nodeClass(node: SceneNode, marks: Marks, near: ReadonlySet<number>): string {
  const { id, index, leaf, root, copies } = node;
  const flags: [boolean, string][] = [
    [leaf, "gw-leaf"],
    [!leaf, "gw-op"],
    [root, "gw-root"],
    [copies > 1, "gw-copy"],
    [marks.reached.has(id), "is-reached"],
    [marks.ran && !marks.reached.has(id), "is-unreached"],
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
  const flowed = marks.flowed.has(edge.index);
  return classes("gw-edge", [
    [flowed, "is-flowed"],
    [marks.ran && !flowed, "is-unreached"],
    [isLit(edge, scene, marks), "is-lit"],
    [marks.hits !== null, "is-dim"],
  ]);
}

function classes(base: string, flags: readonly [boolean, string][]): string {
  let text = base;
  for (const [on, name] of flags) if (on) text += ` ${name}`;
  return text;
}
