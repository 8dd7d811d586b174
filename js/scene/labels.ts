import type { Measure } from "../text/measure";
import { oneLine } from "../text/shorten";
import { Obstacles, TEXT_HEIGHT, TEXT_PAD } from "./obstacles";
import type { EdgeLabel, Scene } from "./scene";

interface Argued {
  /** The name of the argument that the edge feeds. */
  argument: string | null;
}

const WIDEST = 90;
/** The border's share for an edge without a label. */
const PLAIN = 10;
/** Positions of an edge's label, best first; near the consumer, whose argument it names. */
const PLACES = [0.25, 0.17, 0.35, 0.45, 0.55, 0.65, 0.8];

/** The border's share for an edge's label, px. */
export function labelSize({ argument }: Argued, horizontal: boolean, measure: Measure): number {
  const width = argument === null ? 0 : measure(oneLine(argument), "edge") + 2 * TEXT_PAD;
  if (width === 0 || width > WIDEST) return PLAIN;
  return horizontal ? TEXT_HEIGHT : width;
}

/** A label of another graph in the same layout: at the same place, with that graph's words. */
export function labelled(
  label: EdgeLabel | null,
  { argument }: Argued,
  measure: Measure,
): EdgeLabel | null {
  const text = argument === null ? "" : oneLine(argument);
  if (!label || text === label.text) return label;
  return text ? { ...label, text, width: measure(text, "edge") + 2 * TEXT_PAD } : null;
}

/** Write arguments on edges where they cover no box, label or other edge. */
export function placeLabels(scene: Scene, edges: readonly Argued[], measure: Measure): void {
  const obstacles = new Obstacles(scene);
  for (const edge of scene.edges) {
    const { argument } = edges[edge.index];
    if (argument === null) continue;
    const text = oneLine(argument);
    const width = measure(text, "edge") + 2 * TEXT_PAD;
    if (width > WIDEST || text === "") continue;
    const place = obstacles.findOnEdge(edge, width, PLACES);
    edge.label = place && { text, ...place };
    if (place) obstacles.add(place);
  }
}
