import type { Layered } from "./dummies";

export interface LayoutInput {
  /** Number of nodes. */
  n: number;
  /** Per edge, the node it leaves; drawn above the target. */
  source: ArrayLike<number>;
  /** Per edge, the node it ends at. */
  target: ArrayLike<number>;
  /** Per node, the width of its box, px. */
  width: ArrayLike<number>;
  /** Per node, the height of its box, px. */
  height: ArrayLike<number>;
  /** Per node, 1 for a leaf to be drawn once per use; ignored on a node with outgoing edges. */
  shared?: ArrayLike<number> | undefined;
}

export interface LayoutOptions {
  /** Least distance between two boxes in a row, px. Default 24. */
  nodeGap?: number;
  /** Least distance between two rows, px; grows where lines would be too flat. Default 40. */
  rankGap?: number;
  /** Least distance between a line and a box or line that it passes, px. Default 14. */
  edgeGap?: number;
  /**
   * Wanted width over height. What is far taller is wrapped into columns, and a fan of very many leaves into rows. Left
   * out, everything is drawn as tall and as wide as it comes.
   */
  aspect?: number;
}

export interface Layout {
  /** Centres of the drawn nodes, px: the n nodes, then the copies of shared leaves. */
  x: Float64Array;
  y: Float64Array;
  /** Per drawn node, the node it stands for: itself, or for a copy the shared leaf. */
  owner: Int32Array;
  /** Per drawn node, its row within its component, from 0 at the top. */
  rank: Int32Array;
  /** Per edge, the drawn node (a copy, perhaps) that it ends at. */
  edgeTarget: Int32Array;
  /** Per edge, 1 if it is too long to be worked into the picture and runs around it; better shown as two stubs. */
  detour: Uint8Array;
  /** Extent, px: all boxes and lines lie within 0..width, 0..height. */
  width: number;
  height: number;
  /** All polylines, flat: edge e has the x, y pairs in `points` from `pointStart[e]` to `pointStart[e + 1]`, px. */
  points: Float64Array;
  pointStart: Int32Array;
  /**
   * The polyline of an edge: [x, y] points, px, from the bottom border of its source to the top border of its target,
   * y never decreasing; but a line that goes on in the next column (with the option `aspect`) runs up between the two.
   * A self-loop takes no part in the layout: its line is a small hook at the box's right border.
   */
  route(edge: number): [number, number][];
}

/** One connected component, its top left corner at 0, 0. Lengths in px. */
export interface LaidOut {
  x: Float64Array;
  y: Float64Array;
  rank: Int32Array;
  detour: Uint8Array;
  lines: Lines;
  width: number;
  height: number;
}

/** What the steps of placing share. */
export interface Placing {
  layered: Layered;
  /** The nodes by rank, from left to right, and where each is in there. */
  order: Int32Array;
  place: Int32Array;
  /** Per place, the least distance from the neighbour on the left, px. */
  apart: Float64Array;
  x: Float64Array;
  spine: Uint8Array;
}

/** How far nodes and dummies reach to either side of their x, px. */
export interface Reach {
  left: Float64Array;
  right: Float64Array;
}

/** All edges' polylines: those of edge e are the x, y pairs from `points[start[e]]` up to `points[start[e + 1]]`. */
export interface Lines {
  start: Int32Array;
  points: number[];
}
