import { isHorizontal } from "../layout/direction";
import { pointAt } from "./curve";
import { HEADER } from "./frame";
import { type Box, Grid } from "./grid";
import type { Place, Scene, SceneEdge, SceneNode } from "./scene";

/** Height of a text written on an edge or beside a node, px. */
export const TEXT_HEIGHT = 13;
/** Between the text and the ends of its box, px. */
export const TEXT_PAD = 4;

/** A piece of a curve is taken for so many boxes. */
const STEPS = 8;
/** A long edge is not searched further than this many pieces from its source. */
const PIECES = 3;
/** On the line, or beside it where lines run close together. */
const SIDES = [0, -1, 1];
/** Further away, where lines may be crossed as well: past an argument, and past boxes that stand close. */
const FAR_SIDES = [...SIDES, -2, 2, -3, 3, -4, 4];
const BESIDE = 3;
/** An owner in the grid that is no edge. */
const NODE = -1;
const NOBODY = -2;

/** What stands in the way of a text: boxes and other texts, and lines, which it may cross if it must. */
export class Obstacles {
  private readonly boxes = new Grid();
  private readonly lines = new Grid();
  private readonly horizontal: boolean;

  /** `around` is kept free on every side of a node, px. */
  constructor(scene: Scene, around = 0) {
    this.horizontal = isHorizontal(scene.direction);
    for (const node of scene.nodes) {
      const { left, top, right, bottom } = extentOf(node, this.horizontal);
      this.boxes.add(left - around, top - around, right + around, bottom + around, NODE);
    }
    for (const { left, top, right } of scene.frames)
      this.boxes.add(left, top, right, top + HEADER, NODE);
    for (const sign of scene.signs ?? []) this.add(sign);
    for (const edge of scene.edges) {
      this.addCurve(edge);
      if (edge.label) this.add(edge.label);
      for (const sign of edge.merged?.signs ?? []) this.add(sign);
    }
  }

  add({ x, y, width, height }: Place): void {
    const [w, h] = [width / 2, height / 2];
    this.boxes.add(x - w, y - h, x + w, y + h, NODE);
  }

  /** Whether the box is free; its own edge may run through it. */
  isFree({ x, y, width, height }: Place, own: number | null, crossing = false): boolean {
    const [l, t, r, b] = [x - width / 2, y - height / 2, x + width / 2, y + height / 2];
    if (this.boxes.hits(l, t, r, b, NOBODY)) return false;
    return crossing || !this.lines.hits(l, t, r, b, own ?? NOBODY);
  }

  /** A free place for a text of this width on or beside an edge, trying shares of its pieces in turn. */
  findOnEdge(
    { curve, index }: SceneEdge,
    width: number,
    shares: readonly number[],
    crossing = false,
  ): Place | null {
    const segments = (curve.length - 2) / 6;
    const [w, h] = [width / 2, TEXT_HEIGHT / 2];
    for (const side of crossing ? FAR_SIDES : SIDES) {
      for (let i = 0; i < shares.length * Math.min(PIECES, segments); i++) {
        const piece = Math.floor(i / shares.length);
        const [lineX, lineY] = pointAt(curve, (piece + shares[i % shares.length]) / segments);
        const place = {
          x: this.horizontal ? lineX : lineX + side * (w + BESIDE),
          y: this.horizontal ? lineY + side * (h + BESIDE) : lineY,
          width,
          height: TEXT_HEIGHT,
        };
        // Beside its line a text may not be crossed by that line either.
        if (this.isFree(place, side === 0 ? index : null, crossing)) return place;
      }
    }
    return null;
  }

  private addCurve({ curve, index }: SceneEdge): void {
    const segments = (curve.length - 2) / 6;
    let [ax, ay] = curve;
    for (let piece = 0; piece < segments; piece++) {
      const at = 6 * piece;
      // A straight piece needs one box.
      const steps = curve[at] === curve[at + 6] || curve[at + 1] === curve[at + 7] ? 1 : STEPS;
      for (let i = 1; i <= steps; i++) {
        const [bx, by] = pointAt(curve, Math.min(1, (piece + i / steps) / segments));
        this.lines.add(
          Math.min(ax, bx),
          Math.min(ay, by),
          Math.max(ax, bx),
          Math.max(ay, by),
          index,
        );
        [ax, ay] = [bx, by];
      }
    }
  }
}

/** What a node covers: its box with an output's outline, and its stubs on the one side where they hang. */
export function extentOf({ x, y, shape }: SceneNode, horizontal: boolean): Box {
  const [w, h] = [shape.width / 2 + shape.outline, shape.height / 2 + shape.outline];
  return {
    left: x - w,
    top: y - h,
    right: x + (horizontal ? w : shape.outerWidth / 2),
    bottom: y + (horizontal ? shape.outerHeight / 2 : h),
  };
}
