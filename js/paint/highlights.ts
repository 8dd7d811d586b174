import type { Scene, SceneEdge, SceneNode } from "../scene/scene";
import { isModule, neighbours } from "./classes";
import type { Marks } from "./marks";

/** The most highlights for a leaf with thousands of uses: elements are slow. */
const MOST = 300;

/** The elements above the canvas: hover and focus. */
export function highlighted(
  scene: Scene,
  marks: Marks,
): { nodes: SceneNode[]; edges: SceneEdge[] } {
  const { hovered, selected, focused, hit } = marks;
  const ends = new Set([hovered, selected].flatMap((id) => scene.drawn[id ?? -1] ?? []));
  const edges = scene.edges
    .filter(({ source, target }) => ends.has(source) || ends.has(target))
    .slice(0, MOST);
  const near = [...neighbours(scene, marks)].slice(0, MOST);
  const indices = new Set([...near, hit].flatMap((id) => scene.drawn[id ?? -1] ?? []));
  for (const index of ends) indices.add(index);
  if (focused !== null) indices.add(focused);
  for (const node of scene.nodes) if (isModule(node, marks)) indices.add(node.index);
  return { nodes: [...indices].sort((a, b) => a - b).map((index) => scene.nodes[index]), edges };
}

/** The marks without hover and focus, which a canvas keeps. */
export function withoutHighlights(marks: Marks): Marks {
  return { ...marks, hovered: null, selected: null, module: null, focused: null, hit: null };
}
