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
  /** What hangs on nodes, beside their boxes and clear of all else. */
  hanging?: Hanging<ArrayLike<number>> | undefined;
  /**
   * Boxes that nodes lie in, if it is a picture of boxes, even where none is open yet. Its edges may form cycles, as boxes
   * often do where the graph has none: those that close one run up.
   */
  boxes?: BoxInput | undefined;
}

/** Per node, room for what hangs on the left and right of its box, where no line ends, and how tall it is; 0 for nothing. Px. */
export interface Hanging<Numbers = Float64Array> {
  left: Numbers;
  right: Numbers;
  height: Numbers;
}

export interface BoxInput {
  /** Per node, the box that it lies in; -1 for none. */
  of: ArrayLike<number>;
  /** Per box, the box that it lies in, which must come before it; -1 for none. */
  parent: ArrayLike<number>;
  /** Per box, the least width, px: room for its title; its least height where the room is at the left border. */
  titleWidth?: ArrayLike<number>;
}

export interface LayoutOptions {
  /** Least distance between two boxes in a row, px. Default 24. */
  nodeGap?: number;
  /** Least distance between two rows, px; grows where lines would be too flat. Default 40. */
  rankGap?: number;
  /** Least distance between a line and a box or line that it passes, px. Default 14. */
  edgeGap?: number;
  /** How much wider the gap between two rows gets by each crossing in it, px. Default 0. */
  crossGap?: number;
  /**
   * Wanted width over height. A far taller graph is wrapped into columns, and a fan of very many leaves into rows. Left
   * out, everything is drawn as tall and as wide as it comes.
   */
  aspect?: number;
  /** With an aspect, what is not longer than this is not wrapped into columns, px. Default 1200. */
  long?: number;
  /** Whether the first column is the rightmost. */
  reversed?: boolean;
  /** Whether what lies in boxes is wrapped as well. Default true. */
  wrapsBoxes?: boolean;
  /** Room for a title inside the top border of every box, px. Default 28. */
  header?: number;
  /** Room inside the other borders of a box, px. Default 16. */
  padding?: number;
  /** More room inside the left border, where a picture that is turned has the titles, px. Default 0. */
  side?: number;
  /**
   * Contents of boxes laid out before, reused where nothing in them has changed, and added to: the next layout of the
   * same graph, with a box more or less open, is then faster. Drop it along with the graph. Default a new one.
   */
  cache?: ContentCache;
}

/** Copies of a shared leaf lie in the boxes of the nodes that use them. */
export interface Layout {
  /** Centres of the drawn nodes, px: the n nodes, then the copies of shared leaves. */
  x: Float64Array;
  y: Float64Array;
  /** Per drawn node, the node it stands for: itself, or for a copy the shared leaf. */
  owner: Int32Array;
  /** Per drawn node, its row within its component and its box, from 0 at the top. */
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
  boxes: PlacedBoxes;
  /** Per edge, 1 if it runs up, from the top of its source to the bottom of its target, since boxes form a cycle. */
  backward: Uint8Array;
}

interface PlacedBoxes {
  /** Per drawn node, the box that it lies in; -1 for none. */
  of: Int32Array;
  /** Borders of the boxes, px. */
  left: Float64Array;
  top: Float64Array;
  width: Float64Array;
  height: Float64Array;
}

/** The nodes as they are drawn, copies of shared leaves included, and the edges between them. */
export interface DrawnGraph {
  /** Per drawn node, the node it stands for. */
  owner: Int32Array;
  /** Per drawn node, 1 for a shared leaf, which is drawn for one use alone. */
  ofOneUse: Uint8Array;
  width: Float64Array;
  height: Float64Array;
  hanging?: Hanging | undefined;
  source: Int32Array;
  target: Int32Array;
}

/** Drawn nodes at their places; an edge from a node to itself has no line yet. */
export interface PlacedGraph
  extends Pick<Layout, "x" | "y" | "rank" | "detour" | "width" | "height" | "boxes" | "backward"> {
  lines: Lines;
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
  points: number[] | Float64Array;
}

/** Places of a content's items and ports, rows, and the lines between them; the top left corner is at 0, 0. Px. */
export interface PlacedContent {
  x: Float64Array;
  y: Float64Array;
  rank: Int32Array;
  lines: Lines;
  detour: Uint8Array;
  width: number;
  height: number;
}

/** Contents laid out before, by all that they depend on. */
export type ContentCache = Map<string, PlacedContent>;
