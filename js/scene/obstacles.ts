import { isHorizontal } from "../layout/direction";
import { isJump, pointAt, portalEnds } from "./curve";
import { HEADER } from "./frame";
import { type Box, Grid, type Place } from "./grid";
import type { Scene, SceneEdge, SceneNode } from "./scene";

/** Height of a text written on an edge or beside a node, px. */
export const TEXT_HEIGHT = 16;
/** Between the text and the ends of its box, px. */
export const TEXT_PAD = 4;

/** The number of boxes that approximate a piece of a curve. */
const STEPS = 8;
/** A long edge is searched this many pieces from its source. */
const PIECES = 3;
/** On the line, or beside it where lines are close. */
const SIDES = [0, -1, 1];
/** First beside it, to keep a short arrow whole: above a horizontal one, right of a vertical one. */
const BESIDE_FIRST = [-1, 1, 0];
/** How a text is placed at its line: only on it, on it or beside it, so that it touches it, further away, or rather beside it. */
type Where = "line" | "on" | "touching" | "far" | "beside";
/** Further away, past an argument or a close box. */
const FAR_SIDES = [...SIDES, -2, 2, -3, 3, -4, 4];
/** Room around an arrow's tip, px: along it and to its sides. */
const HEAD = [9, 5];
const BESIDE = 3;
/** A line this close to a text that touches another one, px, would seem to be its own, too. */
const APART = 1;
const SIDES_OF: Record<Where, readonly number[]> = {
  line: [0],
  on: SIDES,
  touching: SIDES,
  far: FAR_SIDES,
  beside: BESIDE_FIRST,
};
/** The least length of a piece with a text on it, as a multiple of the text's width: no text is on a bend. */
const LEAST = 1.5;
/** A text that is farther from its line, px, would be taken for another's. */
const MOST_GAP = 40;
/** Room around the border of an open box, px. */
const BORDER = 1;
/** A line's text may be so far outside of the picture's left and right edges, px. */
const OUTSIDE = 8;
/** Room above and below a bar of a row, for numbers and names, px. */
const NAMED = [20, 24];
/** The owner of a place without an edge. */
const NODE = -1;
const NOBODY = -2;

/** The obstacles of a text: boxes and other texts; also lines, which it may cross if necessary. */
export class Obstacles {
  private readonly boxes = new Grid();
  private readonly lines = new Grid();
  /** Borders of open boxes, which a text crosses only as a last resort. */
  private readonly borders = new Grid();
  /** Obstacles that were added later. */
  private readonly added = new Grid();

  /** `around` is free space around each node, px. */
  constructor(
    private readonly scene: Scene,
    around = 0,
  ) {
    const horizontal = isHorizontal(scene.direction);
    for (const node of scene.nodes) {
      const { left, top, right, bottom } = extentOf(node, horizontal);
      const [above, below] = node.bar && horizontal ? NAMED : [around, around];
      this.boxes.add(left - around, top - above, right + around, bottom + below, NODE);
    }
    for (const { left, top, right, bottom } of scene.frames) {
      this.boxes.add(left, top, right, top + HEADER, NODE);
      for (const x of [left, right]) this.borders.add(x - BORDER, top, x + BORDER, bottom, NODE);
      for (const y of [top, bottom]) this.borders.add(left, y - BORDER, right, y + BORDER, NODE);
    }
    const { boxes } = this;
    for (const sign of scene.signs ?? []) put(boxes, sign);
    for (const { label } of scene.links ?? []) if (label) put(boxes, label);
    for (const edge of scene.edges) {
      this.addCurve(edge);
      if (edge.quiet === undefined) this.addHead(edge, scene.isStatic ?? false);
      if (edge.quiet === "constant") this.addHead(edge, true);
      if (edge.label) put(boxes, edge.label);
      for (const sign of edge.merged?.signs ?? []) put(boxes, sign);
    }
  }

  /** The same without later additions. */
  bare(): Obstacles {
    return Object.assign(Object.create(Obstacles.prototype), this, { added: new Grid() });
  }

  add(place: Place): void {
    put(this.added, place);
  }

  /** Whether the box is free; its own edge may cross it. */
  isFree({ x, y, width, height }: Place, own: number | null, crossing = false): boolean {
    const [l, t, r, b] = [x - width / 2, y - height / 2, x + width / 2, y + height / 2];
    if (this.boxes.hits(l, t, r, b, NOBODY) || this.added.hits(l, t, r, b, NOBODY)) return false;
    return crossing || !this.lines.hits(l, t, r, b, own ?? NOBODY);
  }

  /**
   * A free place for a text of this width on or beside an edge, at shares of its pieces in turn. Its own line is the
   * nearest one, and an open box' border is the last resort; a text that is only on its line crosses none.
   */
  findOnEdge(
    edge: SceneEdge,
    width: number,
    shares: readonly number[],
    where: Where = "on",
  ): Place | null {
    let onBorder: Place | null = null;
    for (const place of this.freeOnEdge(edge, width, shares, where)) {
      if (!this.isOnBorder(place)) return place;
      if (where !== "line") onBorder ??= place;
    }
    return onBorder;
  }

  private isOnBorder({ x, y, width, height }: Place): boolean {
    const [w, h] = [width / 2, height / 2];
    return this.borders.hits(x - w, y - h, x + w, y + h, NOBODY);
  }

  private *freeOnEdge(
    { curve, index }: SceneEdge,
    width: number,
    shares: readonly number[],
    where: Where,
  ): Generator<Place, void, void> {
    const segments = (curve.length - 2) / 6;
    const [w, h] = [width / 2, TEXT_HEIGHT / 2];
    for (const given of SIDES_OF[where]) {
      for (let i = 0; i < shares.length * Math.min(PIECES, segments); i++) {
        const piece = Math.floor(i / shares.length);
        if (where === "line" && pieceLength(curve, piece) < LEAST * width) continue;
        const share = (piece + shares[i % shares.length]) / segments;
        const [lineX, lineY] = pointAt(curve, share);
        // Above or below a horizontal line, else left or right of it.
        const half = runsAside(curve, share) ? h : w;
        const side = where === "beside" && half === w ? -given : given;
        const [x, y] =
          half === h ? [lineX, lineY + side * (h + BESIDE)] : [lineX + side * (w + BESIDE), lineY];
        const place = { x, y, width, height: TEXT_HEIGHT };
        // Above and below a picture there is room.
        if (x - w < -OUTSIDE || x + w > this.scene.width + OUTSIDE) continue;
        // Beside its line, a text may not be crossed by that line either.
        if (!this.isFree(place, side === 0 ? index : null)) continue;
        if (where === "touching" && side !== 0) {
          place[half === h ? "y" : "x"] -= side * BESIDE;
          if (this.isFree(place, index) && this.isNearest(place, APART, index)) yield place;
          continue;
        }
        const gap = Math.abs(side) * (half + BESIDE) - half;
        if (side === 0 || (gap <= MOST_GAP && this.isNearest(place, gap, index))) yield place;
      }
    }
  }

  /** Whether no other line is as near to a box as its own, `gap` px away. */
  private isNearest({ x, y, width, height }: Place, gap: number, own: number): boolean {
    const [w, h] = [width / 2 + gap, height / 2 + gap];
    return !this.lines.hits(x - w, y - h, x + w, y + h, own);
  }

  /** Texts avoid an arrow's head. */
  private addHead({ curve }: SceneEdge, atStart: boolean): void {
    const end = curve.length;
    const [tip, before] = atStart ? [0, 2] : [end - 2, end - 4];
    const [x, y] = [curve[tip], curve[tip + 1]];
    const [dx, dy] = [x - curve[before], y - curve[before + 1]];
    const aside = Math.abs(dx) > Math.abs(dy);
    const [long, wide] = HEAD;
    const [backX, backY] = aside ? [x - Math.sign(dx) * long, y] : [x, y - Math.sign(dy) * long];
    const [w, h] = aside ? [0, wide] : [wide, 0];
    this.boxes.add(
      Math.min(x, backX) - w,
      Math.min(y, backY) - h,
      Math.max(x, backX) + w,
      Math.max(y, backY) + h,
      NODE,
    );
  }

  private addCurve({ curve, index, portal }: SceneEdge): void {
    const segments = (curve.length - 2) / 6;
    let [ax, ay] = curve;
    for (let piece = 0; piece < segments; piece++) {
      const at = 6 * piece;
      if (isJump(curve, piece)) {
        const { width = 18 } = portal ?? {};
        for (const [x, y] of portalEnds(curve)) put(this.boxes, { x, y, width, height: 18 });
        [ax, ay] = [curve[at + 6], curve[at + 7]];
        continue;
      }
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

/** The width and height of a piece of a curve, together. */
function pieceLength(curve: ArrayLike<number>, piece: number): number {
  const at = 6 * piece;
  return Math.abs(curve[at + 6] - curve[at]) + Math.abs(curve[at + 7] - curve[at + 1]);
}

function put(grid: Grid, { x, y, width, height }: Place): void {
  const [w, h] = [width / 2, height / 2];
  grid.add(x - w, y - h, x + w, y + h, NODE);
}

/** Whether a curve is more horizontal than vertical there. */
function runsAside(curve: ArrayLike<number>, share: number): boolean {
  const [ax, ay] = pointAt(curve, Math.max(0, share - 0.02));
  const [bx, by] = pointAt(curve, Math.min(1, share + 0.02));
  return Math.abs(bx - ax) > Math.abs(by - ay);
}

/** The extent of a node: its box with an output's outline, and its stubs on one side. */
export function extentOf({ x, y, shape }: SceneNode, horizontal: boolean): Box {
  const [w, h] = [shape.width / 2 + shape.outline, shape.height / 2 + shape.outline];
  if (shape.card) {
    const { x: sx, y: sy, width, height } = shape.card.sign ?? { x: 0, y: 0, width: 0, height: 0 };
    const high = horizontal ? shape.outerHeight / 2 : h;
    return {
      left: x + Math.min(-w, sx - width / 2),
      top: y + Math.min(-high, sy - height / 2),
      right: x + Math.max(w, sx + width / 2),
      bottom: y + Math.max(high, sy + height / 2),
    };
  }
  return {
    left: x - w,
    top: y - h,
    right: x + (horizontal ? w : shape.outerWidth / 2),
    bottom: y + (horizontal ? shape.outerHeight / 2 : h),
  };
}
