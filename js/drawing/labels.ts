import type { Measure } from "../text/measure";
import { oneLine } from "../text/shorten";
import type { EdgeModel } from "../wire";
import { pointAt } from "./curve";
import { isHorizontal } from "./direction";
import { Grid } from "./grid";
import type { Scene, SceneEdge } from "./scene";

/** The argument an edge feeds, written on the edge; x, y is its centre. */
export interface EdgeLabel {
  text: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

const HEIGHT = 13;
const WIDEST = 90;
const PAD = 4;
/** A piece of a curve is taken for so many boxes. */
const STEPS = 8;
/** Border taken by an edge without a label. */
const PLAIN = 10;
/** Where along an edge its label may sit, best first; near the consumer, whose argument it names. */
const PLACES = [0.25, 0.17, 0.35, 0.45, 0.55, 0.65, 0.8];
/** A long edge is not searched further than this many pieces from its consumer. */
const PIECES = 3;
/** On the line, or beside it where lines run close together. */
const SIDES = [0, -1, 1];
const BESIDE = 3;

/** Owners in the grid that are no edge. */
const NODE = -1;
const NOBODY = -2;

/** How much of its source's border an edge's label takes, px. */
export function labelSize({ argument }: EdgeModel, horizontal: boolean, measure: Measure): number {
  const width = argument === null ? 0 : measure(oneLine(argument), "edge") + 2 * PAD;
  if (width === 0 || width > WIDEST) return PLAIN;
  return horizontal ? HEIGHT : width;
}

/** Writes arguments on edges wherever they cover no box, no other label and no other edge. */
export function placeLabels(scene: Scene, edges: readonly EdgeModel[], measure: Measure): void {
  const grid = new Grid();
  const horizontal = isHorizontal(scene.direction);
  for (const { x, y, shape } of scene.nodes) {
    const [w, h] = [shape.outerWidth / 2, shape.outerHeight / 2];
    grid.add(x - w, y - h, x + w, y + h, NODE);
  }
  for (const edge of scene.edges) addCurve(grid, edge);
  for (const edge of scene.edges) {
    const { argument } = edges[edge.index];
    if (argument === null) continue;
    const text = oneLine(argument);
    const width = measure(text, "edge") + 2 * PAD;
    if (width > WIDEST || text === "") continue;
    const label = findPlace(edge, text, width, horizontal, grid);
    edge.label = label;
    if (label) {
      const { x, y } = label;
      grid.add(x - width / 2, y - HEIGHT / 2, x + width / 2, y + HEIGHT / 2, NODE);
    }
  }
}

function addCurve(grid: Grid, { curve, index }: SceneEdge): void {
  const segments = (curve.length - 2) / 6;
  let [ax, ay] = curve;
  for (let piece = 0; piece < segments; piece++) {
    const at = 6 * piece;
    // A straight piece needs one box.
    const steps = curve[at] === curve[at + 6] || curve[at + 1] === curve[at + 7] ? 1 : STEPS;
    for (let i = 1; i <= steps; i++) {
      const [bx, by] = pointAt(curve, Math.min(1, (piece + i / steps) / segments));
      grid.add(Math.min(ax, bx), Math.min(ay, by), Math.max(ax, bx), Math.max(ay, by), index);
      [ax, ay] = [bx, by];
    }
  }
}

function findPlace(
  { curve, index }: SceneEdge,
  text: string,
  width: number,
  horizontal: boolean,
  grid: Grid,
): EdgeLabel | null {
  const segments = (curve.length - 2) / 6;
  const [w, h] = [width / 2, HEIGHT / 2];
  for (const side of SIDES) {
    for (let i = 0; i < PLACES.length * Math.min(PIECES, segments); i++) {
      const piece = Math.floor(i / PLACES.length);
      const [lineX, lineY] = pointAt(curve, (piece + PLACES[i % PLACES.length]) / segments);
      const x = horizontal ? lineX : lineX + side * (w + BESIDE);
      const y = horizontal ? lineY + side * (h + BESIDE) : lineY;
      // Beside its line a label may not be crossed by that line either.
      if (!grid.hits(x - w, y - h, x + w, y + h, side === 0 ? index : NOBODY)) {
        return { text, x, y, width, height: HEIGHT };
      }
    }
  }
  return null;
}
