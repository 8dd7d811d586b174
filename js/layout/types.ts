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
  /** Per node, 1 for a leaf with a copy per use; ignored on a node with outgoing edges. */
  shared?: ArrayLike<number> | undefined;
  /** The docked parts beside nodes' boxes. */
  hanging?: Hanging<ArrayLike<number>> | undefined;
  /** The boxes, if there are any. Edges between boxes that close a cycle run up. */
  boxes?: BoxInput | undefined;
}

/** Per node, the room for docked parts on its left and right, where no line ends, and their height; 0 for none. Px. */
export interface Hanging<Numbers = Float64Array> {
  left: Numbers;
  right: Numbers;
  height: Numbers;
}

export interface BoxInput {
  /** Per node, its box; -1 for none. */
  of: ArrayLike<number>;
  /** Per box, its parent, which must come before it; -1 for none. */
  parent: ArrayLike<number>;
  /** Per box, the least width for its title, px; the least height if titles are at the left border. */
  titleWidth?: ArrayLike<number>;
  /** Per box, whether it is wrapped like a picture, in spite of the option `wrapsBoxes`. */
  isOuter?: ArrayLike<boolean>;
}

export interface LayoutOptions {
  /** Least distance between two boxes in a row, px. Default 24. */
  nodeGap?: number;
  /** Least distance between two rows, px; grows where lines would be too flat. Default 40. */
  rankGap?: number;
  /** Least distance between a line and a box or line that it passes, px. Default 14. */
  edgeGap?: number;
  /** The growth of a gap between two rows per crossing, px. Default 0. */
  crossGap?: number;
  /** Wanted width over height, by columns, and by rows of a node's very many leaves. By default nothing is wrapped. */
  aspect?: number;
  /** With an aspect, shorter graphs are not wrapped into columns, px. Default 1200. */
  long?: number;
  /** Whether the first column is the rightmost. */
  reversed?: boolean;
  /** Whether content of other boxes is wrapped too. Default true. */
  wrapsBoxes?: boolean;
  /** Whether boxes and nodes outside all boxes are wrapped. Default true. */
  wrapsWhole?: boolean;
  /** Room for a title inside the top border of every box, px. Default 28. */
  header?: number;
  /** Room inside the other borders of a box, px. Default 16. */
  padding?: number;
  /** More room inside the left border, for the titles of a turned picture, px. Default 0. */
  side?: number;
  /** Laid-out contents of boxes, reused if unchanged and added to. Drop it along with the graph. */
  cache?: ContentCache;
}

/** Copies of a shared leaf are in their users' boxes. */
export interface Layout {
  /** Centres of the drawn nodes, px: the n nodes, then the copies of shared leaves. */
  x: Float64Array;
  y: Float64Array;
  /** Per drawn node, its input node: itself, or for a copy the shared leaf. */
  owner: Int32Array;
  /** Per drawn node, its row within its component and its box, from 0 at the top. */
  rank: Int32Array;
  /** Per edge, the drawn node (perhaps a copy) at its end. */
  edgeTarget: Int32Array;
  /** Per edge, 1 if it is too long for the picture and runs around it; better shown as two stubs. */
  detour: Uint8Array;
  /** Extent, px: all boxes and lines lie within 0..width, 0..height. */
  width: number;
  height: number;
  /** All polylines, flat: edge e has the x, y pairs in `points` from `pointStart[e]` to `pointStart[e + 1]`, px. */
  points: Float64Array;
  pointStart: Int32Array;
  /**
   * The polyline of an edge: [x, y] points, px, from the bottom border of its source to the top border of its target, y
   * never decreasing, except between columns (option `aspect`), where it runs up. A self-loop is a small hook at the
   * box' right border.
   */
  route(edge: number): [number, number][];
  boxes: PlacedBoxes;
  /** Per edge, 1 if it runs up because boxes form a cycle. */
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

/** The drawn nodes, copies of shared leaves included, and their edges. */
export interface DrawnGraph {
  /** Per drawn node, its input node. */
  owner: Int32Array;
  /** Per drawn node, 1 for a shared leaf that is drawn for a single use. */
  ofOneUse: Uint8Array;
  width: Float64Array;
  height: Float64Array;
  hanging?: Hanging | undefined;
  source: Int32Array;
  target: Int32Array;
}

/** The laid-out picture; a self-loop has no line yet. */
export type PlacedGraph = LaidOut & Pick<Layout, "boxes" | "backward">;

/** A part of a picture with its top left corner at 0, 0: nodes, then ports on a box' border. Px. */
export interface LaidOut extends Pick<Layout, "x" | "y" | "rank" | "detour" | "width" | "height"> {
  lines: Lines;
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

/** Laid-out contents, by all their inputs. */
export type ContentCache = Map<string, LaidOut>;

/** Least distances, px; see `LayoutOptions`. */
export interface Gaps {
  nodeGap: number;
  rankGap: number;
  edgeGap: number;
  crossGap: number;
  /** Between a border's ports and the next row, px. */
  topGap: number;
  bottomGap: number;
  aspect: number | undefined;
  long: number;
  reversed: boolean;
}

/**
 * The connection of a box' content to its surroundings. The graph's last nodes are ports, points on the top or bottom
 * border through which lines pass. Nodes that are boxes have lines at fixed places.
 */
export interface Border {
  /** Per port, 1 on the top border, 0 on the bottom border. */
  isTop: Uint8Array;
  /** Per port, its wanted place among those on its border; NaN if free. */
  wish: Float64Array;
  /** Per edge, where it leaves its source and enters its target, px right of their x; NaN if free. */
  leave: Float64Array;
  arrive: Float64Array;
  /** Per node, how far its x is right of its box' middle, px: a box is placed by its main line. */
  lean: Float64Array;
  /** Per node, a width for comparing orders, px; the same for open and closed boxes, so that opening keeps the order. */
  nominal: Float64Array;
}

/** Per segment of `Layered.down` and `up`, the offset from the neighbour that makes its line straight, px. */
export interface Shifts {
  down: Float64Array;
  up: Float64Array;
}
