/**
 * Layout with boxes around groups of nodes, in boxes: every box's content is laid out as a graph of its own (content),
 * the innermost first; the box is then one node of the content around it. Lines pass borders through ports (passages)
 * at the places that the layout inside gave them, so that each is one line from node to node.
 *
 * Opening a box changes only sizes around it: rows, and the order within rows, of everything outside stay as they are
 * within each connected part (without the option `aspect`, which breaks columns by size).
 */
import { check } from "../check";
import { copyShared } from "../copies";
import { flatten, hook, routeOf } from "../index";
import { addPoint } from "../route";
import type { Layout, LayoutInput, LayoutOptions } from "../types";
import {
  type Content,
  type ContentCache,
  type Gaps,
  layoutCached,
  type PlacedContent,
} from "./content";
import { type Nesting, nest, type Passages, passages } from "./passages";

/** Edges may form cycles, as boxes often do where the graph has none: those that close one run up. */
export interface NestedInput extends LayoutInput {
  /** Per node, the box that it lies in; -1 for none. */
  box: ArrayLike<number>;
  /** Per box, the box that it lies in, which must come before it; -1 for none. */
  boxParent: ArrayLike<number>;
  /** Per box, the least width, px: room for its title. */
  titleWidth?: ArrayLike<number>;
}

interface NestedOptions extends LayoutOptions {
  /** Room for a title inside the top border of every box, px. Default 28. */
  header?: number;
  /** Room inside the other borders, px. Default 16. */
  padding?: number;
  /**
   * Contents of boxes laid out before, reused where nothing in them has changed, and added to: the next layout of the
   * same graph, with a box more or less open, is then faster. Drop it along with the graph. Default a new one.
   */
  cache?: ContentCache;
}

/** Copies of a shared leaf lie in the boxes of the nodes that use them. A row is counted within the node's box. */
export interface NestedLayout extends Layout {
  /** Borders of the boxes, px. */
  boxes: { left: Float64Array; top: Float64Array; width: Float64Array; height: Float64Array };
  /** Per drawn node, the box that it lies in; -1 for none. */
  boxOf: Int32Array;
  /** Per edge, 1 if it runs up, from the top of its source to the bottom of its target, since boxes form a cycle. */
  backward: Uint8Array;
}

/** Two boxes of unlike width are judged alike when orders are compared, px. */
const NOMINAL_WIDTH = 120;

/** Between a border's room and the first or last row, px. */
const LEAST_GAP = 12;

/** Lays out a graph with nodes in boxes. Throws an Error with a sentence on bad input. */
export function layoutNested(input: NestedInput, options: NestedOptions = {}): NestedLayout {
  check(input, options);
  const { nodeGap = 24, rankGap = 40, edgeGap = 14, header = 28, padding = 16 } = options;
  const { edgeTarget, owner } = copyShared(input.n, input.source, input.target, input.shared);
  const boxOf = boxesOfDrawn(input, owner, edgeTarget);
  const nesting = nest(boxOf, input.boxParent);
  const ways = passages(nesting, input.source, edgeTarget);
  const sizes = {
    width: Float64Array.from(owner, (v) => input.width[v]),
    height: Float64Array.from(owner, (v) => input.height[v]),
  };
  const frame = { header, padding, titleWidth: input.titleWidth };
  // A line that passes a border has the room beside the border to bend in, too.
  const topGap = Math.max(LEAST_GAP, rankGap - header);
  const bottomGap = Math.max(LEAST_GAP, rankGap - padding);
  const gaps = { nodeGap, rankGap, edgeGap, topGap, bottomGap, aspect: options.aspect };
  const placed = placeBoxes(nesting, ways, sizes, gaps, frame, options.cache ?? new Map());
  const { left, top } = origins(nesting, placed);

  const n = owner.length;
  const count = input.boxParent.length;
  const { parent } = nesting;
  const x = Float64Array.from(owner, (_, v) => left[parent[v] - n] + placed.x[v]);
  const y = Float64Array.from(owner, (_, v) => top[parent[v] - n] + placed.y[v]);
  let width = placed.width[count];
  const detour = new Uint8Array(edgeTarget.length);
  const lines = ways.paths.map((path, e) => {
    if (path.length === 0) {
      const v = edgeTarget[e];
      const bulge = Math.min(10, nodeGap / 2);
      width = Math.max(width, x[v] + sizes.width[v] / 2 + bulge);
      return hook(x[v] + sizes.width[v] / 2, y[v], bulge, sizes.height[v] / 2);
    }
    const points: number[] = [];
    for (const k of path) {
      const b = ways.lineBox[k] - n;
      const line = placed.lines[k];
      if (placed.detour[k]) detour[e] = 1;
      for (let i = 0; i < line.length; i += 2) {
        addPoint(points, 0, line[i] + left[b], line[i + 1] + top[b]);
      }
    }
    return ways.backward[e] ? turnAround(points) : points;
  });
  const { points, pointStart } = flatten(lines);
  return {
    x,
    y,
    owner,
    rank: placed.rank,
    edgeTarget,
    detour,
    width,
    height: placed.height[count],
    points,
    pointStart,
    route: (edge) => routeOf(points, pointStart, edge),
    boxes: {
      left: left.slice(0, count),
      top: top.slice(0, count),
      width: placed.width.slice(0, count),
      height: placed.height.slice(0, count),
    },
    boxOf,
    backward: ways.backward,
  };
}

/** A copy of a shared leaf, and the leaf itself, lie where they are used. */
function boxesOfDrawn(input: NestedInput, owner: Int32Array, edgeTarget: Int32Array): Int32Array {
  const boxOf = Int32Array.from(owner, (v) => input.box[v]);
  if (!input.shared) return boxOf;
  const isInner = new Uint8Array(owner.length);
  for (let e = 0; e < edgeTarget.length; e++) isInner[input.source[e]] = 1;
  for (let e = 0; e < edgeTarget.length; e++) {
    const v = edgeTarget[e];
    if (input.shared[owner[v]] && !isInner[v]) boxOf[v] = input.box[input.source[e]];
  }
  return boxOf;
}

/** Positions within the box around, sizes of the boxes; indexed by node, item, box and line as in the passages. */
interface PlacedBoxes {
  /** Per item, its centre; for a box, the place that its middle line is at. */
  x: Float64Array;
  y: Float64Array;
  rank: Int32Array;
  /** Per box (the whole picture last), its size and how far right of its left border its middle line is. */
  width: Float64Array;
  height: Float64Array;
  middle: Float64Array;
  lines: number[][];
  detour: Uint8Array;
}

function placeBoxes(
  nesting: Nesting,
  ways: Passages,
  node: { width: Float64Array; height: Float64Array },
  gaps: Gaps,
  frame: { header: number; padding: number; titleWidth: ArrayLike<number> | undefined },
  cache: ContentCache,
): PlacedBoxes {
  const { n, parent, depth, content } = nesting;
  const items = parent.length;
  const count = items - n;
  const byBox = (boxes: number[]) => listByBox(boxes, n, count);
  const [portsOf, linesOf] = [byBox(ways.portBox), byBox(ways.lineBox)];
  const placed: PlacedBoxes = {
    x: new Float64Array(items),
    y: new Float64Array(items),
    rank: new Int32Array(n),
    width: new Float64Array(count),
    height: new Float64Array(count),
    middle: new Float64Array(count),
    lines: new Array(ways.lineBox.length),
    detour: new Uint8Array(ways.lineBox.length),
  };
  const portX = new Float64Array(ways.portBox.length);
  const local = new Int32Array(items + portX.length);
  const inwards = Array.from({ length: count }, (_, b) => b).sort(
    (a, b) => depth[n + b] - depth[n + a] || a - b,
  );
  for (const b of inwards) {
    const own = content.item.subarray(content.start[n + b], content.start[n + b + 1]);
    own.forEach((item, i) => {
      local[item] = i;
    });
    portsOf[b].forEach((port, i) => {
      local[items + port] = own.length + i;
    });
    const laid = layoutCached(describe(b, own), gaps, cache);
    settle(b, own, laid);
  }
  return placed;

  /** The content of a box, with the boxes in it as plain nodes whose lines are fixed. */
  function describe(b: number, own: Int32Array): Content {
    const at = (port: number) =>
      port < 0 ? Number.NaN : portX[port] - placed.middle[ways.portBox[port] - n];
    return {
      inside: own.length,
      width: Float64Array.from(own, (i) => (i < n ? node.width[i] : placed.width[i - n])),
      height: Float64Array.from(own, (i) => (i < n ? node.height[i] : placed.height[i - n])),
      lean: Float64Array.from(own, (i) =>
        i < n ? 0 : placed.middle[i - n] - placed.width[i - n] / 2,
      ),
      nominal: new Float64Array(own.length).fill(NOMINAL_WIDTH),
      isTop: Uint8Array.from(portsOf[b], (port) => ways.portIsTop[port]),
      source: Int32Array.from(linesOf[b], (k) => local[ways.from[k]]),
      target: Int32Array.from(linesOf[b], (k) => local[ways.to[k]]),
      leave: Float64Array.from(linesOf[b], (k) => at(ways.fromPort[k])),
      arrive: Float64Array.from(linesOf[b], (k) => at(ways.toPort[k])),
    };
  }

  /** Puts laid out content into its box, and prolongs its lines to the box's borders. */
  function settle(b: number, own: Int32Array, laid: PlacedContent): void {
    const isRoot = b === count - 1;
    const padding = isRoot ? 0 : frame.padding;
    const header = isRoot ? 0 : frame.header;
    const least = isRoot ? 0 : (frame.titleWidth?.[b] ?? 0);
    placed.width[b] = Math.max(least, laid.width + 2 * padding);
    placed.height[b] = header + laid.height + padding;
    const right = Math.round(placed.width[b] - laid.width) / 2;
    own.forEach((item, i) => {
      placed.x[item] = laid.x[i] + right;
      placed.y[item] = laid.y[i] + header;
      if (item < n) placed.rank[item] = laid.rank[i];
    });
    portsOf[b].forEach((port, i) => {
      portX[port] = laid.x[own.length + i] + right;
    });
    linesOf[b].forEach((k, i) => {
      const line = laid.lines[i].map((value, at) => value + (at % 2 ? header : right));
      if (ways.from[k] >= items) line.unshift(portX[ways.from[k] - items], 0);
      if (ways.to[k] >= items) line.push(portX[ways.to[k] - items], placed.height[b]);
      placed.lines[k] = line;
      placed.detour[k] = laid.detour[i];
    });
    placed.middle[b] = middleOf(b);
  }

  /** Where most of a box's lines pass its borders, so that a chain of boxes is one straight line. */
  function middleOf(b: number): number {
    const places = portsOf[b].map((port) => portX[port]).sort((p, q) => p - q);
    let best = places.length > 0 ? places[places.length >> 1] : placed.width[b] / 2;
    let most = 1;
    for (let i = 0, j = 0; i < places.length; i = j) {
      while (j < places.length && places[j] === places[i]) j++;
      if (j - i > most) {
        most = j - i;
        best = places[i];
      }
    }
    return best;
  }
}

/** Where the boxes' top left corners are in the whole picture, px; the whole picture last. */
function origins({ n, parent }: Nesting, placed: PlacedBoxes) {
  const count = placed.width.length;
  const left = new Float64Array(count);
  const top = new Float64Array(count);
  for (let b = 0; b + 1 < count; b++) {
    const around = parent[n + b] - n;
    left[b] = left[around] + placed.x[n + b] - placed.middle[b];
    top[b] = top[around] + placed.y[n + b] - placed.height[b] / 2;
  }
  return { left, top };
}

function listByBox(boxes: number[], n: number, count: number): number[][] {
  const lists: number[][] = Array.from({ length: count }, () => []);
  boxes.forEach((box, i) => {
    lists[box - n].push(i);
  });
  return lists;
}

function turnAround(points: number[]): number[] {
  const turned: number[] = [];
  for (let i = points.length - 2; i >= 0; i -= 2) turned.push(points[i], points[i + 1]);
  return turned;
}
