import type { Measure } from "../text/measure";
import { formatShape } from "../text/shorten";
import type { GraphModel } from "../wire";
import type { Place } from "./grid";
import { Obstacles, TEXT_HEIGHT, TEXT_PAD } from "./obstacles";
import type { Plan } from "./plan";
import type { Scene, SceneEdge } from "./scene";
import { tensorsIn } from "./shown_graph";

/** Where along an arrow its shape is written, best first. */
const PLACES = [0.5, 0.42, 0.58, 0.34, 0.66];
/** A longer shape is left to the tooltip, which every arrow has, px. */
const WIDEST = 120;
/** The least length of an arrow, as a multiple of the part that its shape hides. */
const LEAST = 3;
/** An arrow that reaches this far both ways goes to another row, px. */
const OTHER_ROW = 60;

/**
 * Write the shape of the tensor on arrows at closed boxes, where there is room. In a row an arrow has the shape of the
 * one before it unless another is written.
 */
export function nameShapes(
  scene: Scene,
  graph: GraphModel,
  { nodes, edges, nodeOf }: Plan,
  measure: Measure,
): void {
  if (graph.static || !nodes.some(({ group, strip }) => group || strip)) return;
  const isBox = (v: number) => nodes[v].group !== null || nodes[v].strip !== undefined;
  const shapes = edges.map(({ source, target, edges: parts, folded }) => {
    if (!isBox(source) && !isBox(target)) return null;
    if (tensorsIn(graph, parts, folded) !== 1) return null;
    const made = parts
      .map((e) => graph.edges[e])
      .find(({ target: id, kind }) => kind === "gradient" && (nodeOf?.[id] ?? id) === target);
    if (made?.output_nr !== 0 || graph.nodes[made.target].kind !== "op") return null;
    const { shape } = graph.nodes[made.target];
    return shape?.length ? formatShape(shape) : null;
  });
  /** Per box, the shapes that it takes. */
  const taken = nodes.map(() => new Set<string | null>());
  for (const [e, { source }] of edges.entries()) taken[source].add(shapes[e]);
  const obstacles = new Obstacles(scene);
  for (const edge of scene.edges) {
    const text = shapes[edge.index];
    if (!text || edge.label || edge.portal !== undefined) continue;
    if (!isToOtherRow(edge) && taken[edges[edge.index].target].has(text)) continue;
    const width = measure(text, "edge") + 2 * TEXT_PAD;
    if (width > WIDEST || isShort(edge, width)) continue;
    const place = obstacles.findOnEdge(edge, width, PLACES, "line");
    if (!place || !isWithin(place, scene)) continue;
    edge.label = { text, ...place };
    obstacles.add(place);
  }
}

function isWithin({ x, width }: Place, scene: Scene): boolean {
  return x - width / 2 >= 0 && x + width / 2 <= scene.width;
}

/** Whether a text of this width would hide most of an arrow: of a vertical one only its height. */
function isShort({ bounds: [left, top, right, bottom] }: SceneEdge, width: number): boolean {
  const hidden = right - left < TEXT_PAD ? TEXT_HEIGHT : width;
  return right - left + bottom - top < LEAST * hidden;
}

function isToOtherRow({ bounds: [left, top, right, bottom] }: SceneEdge): boolean {
  return Math.min(right - left, bottom - top) > OTHER_ROW;
}
