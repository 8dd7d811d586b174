import { addPoint } from "./lines";
import type { Gaps, LaidOut, Reach } from "./types";

interface Column {
  /** Extent before it is moved. */
  left: number;
  right: number;
  top: number;
  bottom: number;
  /** How far it is moved. */
  dx: number;
  dy: number;
}

/**
 * Wrap a component that is far too tall into columns, like a newspaper: edges run down in each, and lines to the next
 * column pass below, up through the gutter, and in from above. A column ends where few lines pass. Order, ranks and
 * distances within a column stay. `reach` and `height` are the boxes', px; `aspect` is the wanted width over height. A
 * component not longer than `long` is not wrapped.
 */
export function wrapColumns(
  part: LaidOut,
  reach: Reach,
  height: Float64Array,
  aspect: number,
  gaps: Gaps,
): LaidOut {
  if (part.height <= gaps.long) return part;
  if (!gaps.reversed) return wrapped(part, reach, height, aspect, gaps);
  const turned = { left: reach.right, right: reach.left };
  return mirrored(wrapped(mirrored(part), turned, height, aspect, gaps));
}

/** Mirror left and right. */
function mirrored(part: LaidOut): LaidOut {
  const { start, points } = part.lines;
  const flip = (x: number) => part.width - x;
  const lines = { start, points: Array.from(points, (at, i) => (i % 2 ? at : flip(at))) };
  return { ...part, x: part.x.map(flip), lines };
}

function wrapped(part: LaidOut, reach: Reach, height: Float64Array, aspect: number, gaps: Gaps) {
  const count = Math.round(
    Math.sqrt((aspect * part.height) / (part.width + 2 * gaps.nodeGap + gaps.edgeGap)),
  );
  if (count < 2) return part;
  const cuts = chooseCuts(part, height, count);
  if (cuts.length === 0) return part;

  const columnOf = Int32Array.from(part.y, (y) => columnAt(cuts, y));
  const pieces = cutLines(part.lines, cuts);
  const lanes = lanesOf(pieces, cuts);
  const columns = extents(part, reach, height, columnOf, pieces, cuts);
  place(columns, lanes, gaps);

  const start = new Int32Array(part.lines.start.length);
  const points: number[] = [];
  pieces.forEach((line, e) => {
    const from = points.length;
    line.forEach((piece, k) => {
      const { dx, dy } = columns[piece.column];
      if (k > 0) gutter(points, from, piece);
      for (let i = 0; i < piece.points.length; i += 2)
        addPoint(points, from, piece.points[i] + dx, piece.points[i + 1] + dy);
    });
    start[e + 1] = points.length;
  });
  return {
    x: part.x.map((x, v) => x + columns[columnOf[v]].dx),
    y: part.y.map((y, v) => y + columns[columnOf[v]].dy),
    rank: part.rank,
    detour: part.detour,
    lines: { start, points },
    width: Math.max(...columns.map(({ right, dx }) => right + dx)),
    height: Math.max(
      ...columns.map(({ bottom, dy }, c) => bottom + dy + (lanes[c]?.size ?? 0) * gaps.edgeGap),
    ),
  };

  /**
   * The way from one column to the next. Lines nest: the rightmost takes the innermost lane below and in the gutter,
   * and the outermost above, so that none cross.
   */
  function gutter(points: number[], from: number, piece: Piece): void {
    const next = columns[piece.column];
    const last = columns[piece.column - 1];
    const cut = cuts[piece.column - 1];
    const lane = lanes[piece.column - 1];
    const i = lane.get(passing(piece)) as number;
    const inner = lane.size - 1 - i;
    const below = cut.top + last.dy + (inner + 1) * gaps.edgeGap;
    const gutterX = last.right + last.dx + gaps.nodeGap + inner * gaps.edgeGap;
    const above = cut.bottom + next.dy - (i + 1) * gaps.edgeGap;
    addPoint(points, from, piece.passed + last.dx, below);
    addPoint(points, from, gutterX, below);
    addPoint(points, from, gutterX, above);
    addPoint(points, from, piece.points[0] + next.dx, above);
  }
}

function columnAt(cuts: Cut[], y: number): number {
  let low = 0;
  let high = cuts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (cuts[middle].bottom <= y) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A part of a line within one column, x and y in turn, px, from gap to gap. */
interface Piece {
  column: number;
  points: number[];
  /** Where the line left the column before, without the slant across the gap. */
  passed: number;
}

/** Cut every line at the columns. */
function cutLines({ start, points }: LaidOut["lines"], cuts: Cut[]): Piece[][] {
  const lines: Piece[][] = [];
  for (let e = 0; e + 1 < start.length; e++) {
    let column = columnAt(cuts, points[start[e] + 1]);
    let piece: Piece = { column, points: [], passed: 0 };
    const pieces = [piece];
    for (let i = start[e]; i < start[e + 1]; i += 2) {
      const [x, y] = [points[i], points[i + 1]];
      const at = (height: number) => {
        const [x0, y0] = [points[i - 2], points[i - 1]];
        // Rounded, so that shared lines are equal.
        return Math.round((x0 + ((x - x0) * (height - y0)) / (y - y0)) * 100) / 100;
      };
      while (column < cuts.length && cuts[column].top < y) {
        const { top, bottom } = cuts[column];
        if (piece.column === column) {
          const passed = y === points[i - 1] ? x : at(top);
          piece.points.push(passed, top);
          piece = { column: column + 1, points: [], passed };
          pieces.push(piece);
        }
        if (y < bottom) break;
        piece.points.push(at(bottom), bottom);
        column++;
      }
      if (piece.column === column) piece.points.push(x, y);
    }
    lines.push(pieces);
  }
  return lines;
}

/** The ends of a piece: lines that coincide share them. */
function passing({ passed, points }: Piece): string {
  return `${passed} ${points[0]}`;
}

/** The lanes around the cut below each column, from left to right. */
function lanesOf(lines: Piece[][], cuts: Cut[]): Map<string, number>[] {
  const places = cuts.map(() => new Map<string, Piece>());
  for (const pieces of lines) {
    for (let k = 1; k < pieces.length; k++)
      places[pieces[k].column - 1].set(passing(pieces[k]), pieces[k]);
  }
  return places.map((passed) => {
    const sorted = [...passed].sort(
      ([, a], [, b]) => a.passed - b.passed || a.points[0] - b.points[0],
    );
    return new Map(sorted.map(([key], i) => [key, i]));
  });
}

function extents(
  { x, y, height: total }: LaidOut,
  reach: Reach,
  height: Float64Array,
  columnOf: Int32Array,
  lines: Piece[][],
  cuts: Cut[],
): Column[] {
  const columns = Array.from({ length: cuts.length + 1 }, (_, c) => ({
    left: Infinity,
    right: -Infinity,
    top: Infinity,
    bottom: cuts[c]?.top ?? total,
    dx: 0,
    dy: 0,
  }));
  const widen = (column: Column, left: number, right: number) => {
    column.left = Math.min(column.left, left);
    column.right = Math.max(column.right, right);
  };
  for (let v = 0; v < x.length; v++) {
    const column = columns[columnOf[v]];
    widen(column, x[v] - reach.left[v], x[v] + reach.right[v]);
    column.top = Math.min(column.top, y[v] - height[v] / 2);
  }
  for (const pieces of lines) {
    for (const { column, points } of pieces) {
      for (let i = 0; i < points.length; i += 2) widen(columns[column], points[i], points[i]);
    }
  }
  return columns;
}

/** Shorter columns, as a share of the longest, are next to where the column before them ends. */
const SHORT = 0.35;

/**
 * Put columns side by side, their first boxes level (reversed: the last), with room for continued lines. If a short
 * one with the outputs is left over, it is level with the other end: its line is shorter.
 */
function place(columns: Column[], lanes: Map<string, number>[], gaps: Gaps): void {
  let top = columns[0].top;
  for (let c = 1; c < columns.length; c++) {
    top = Math.max(top, lanes[c - 1].size * gaps.edgeGap + gaps.edgeGap);
  }
  const longest = Math.max(...columns.map((column) => column.bottom - column.top));
  let left = 0;
  columns.forEach((column, c) => {
    const isLeftOver = c === 0 && column.bottom - column.top < SHORT * longest;
    column.dx = left - column.left;
    column.dy = gaps.reversed && !isLeftOver ? top + longest - column.bottom : top - column.top;
    left = column.right + column.dx + 2 * gaps.nodeGap;
    left += Math.max(0, (lanes[c]?.size ?? 0) - 1) * gaps.edgeGap;
  });
}

/** A gap between two ranks, from the lowest box above it to the highest below, px. */
interface Cut {
  top: number;
  bottom: number;
}

/** How far a cut may move to pass fewer lines, as a share of a column's height. */
const WINDOW = 0.35;

/** The cost of a line at a cut, as a share of a column's height. */
const PER_LINE = 0.08;

/**
 * Cut a component into `count` parts of similar height, or fewer if those are not taller, between ranks with few lines.
 * `height` is the boxes', px. Returns the cuts from the top down.
 */
function chooseCuts(part: LaidOut, height: Float64Array, count: number): Cut[] {
  const gaps = gapsBetweenRanks(part, height);
  let cuts = cutInto(gaps, part.height, count);
  const tallest = tallestPart(cuts, part.height);
  // Blocks of equal height may fill six columns as well as eight; prefer fewer.
  for (let fewer = count - 1; fewer >= 2 && fewer > count / 2; fewer--) {
    const other = cutInto(gaps, part.height, fewer);
    if (tallestPart(other, part.height) <= 1.02 * tallest) cuts = other;
  }
  return cuts;
}

interface Gap extends Cut {
  /** Its middle, px. */
  y: number;
  /** The number of lines through it. */
  lines: number;
}

function cutInto(gaps: Gap[], height: number, count: number): Cut[] {
  const column = height / count;
  const cuts: Cut[] = [];
  for (let j = 1, g = 0; j < count; j++) {
    const wish = j * column;
    let best = -1;
    let least = Infinity;
    const from = g;
    while (g < gaps.length && gaps[g].y < wish - WINDOW * column) g++;
    for (; g < gaps.length && gaps[g].y <= wish + WINDOW * column; g++) {
      const cost = Math.abs(gaps[g].y - wish) / column + PER_LINE * gaps[g].lines;
      if (cost < least) {
        least = cost;
        best = g;
      }
    }
    // A long box is there: cut at its nearer end.
    if (best < 0) {
      const ends = [g - 1, g].filter((end) => end >= from && end < gaps.length);
      for (const end of ends)
        if (best < 0 || Math.abs(gaps[end].y - wish) < Math.abs(gaps[best].y - wish)) best = end;
      g = Math.max(g, best + 1);
    }
    if (best >= 0) cuts.push(gaps[best]);
  }
  return cuts;
}

function tallestPart(cuts: Cut[], height: number): number {
  let tallest = 0;
  let last = 0;
  for (const { top, bottom } of cuts) {
    tallest = Math.max(tallest, top - last);
    last = bottom;
  }
  return Math.max(tallest, height - last);
}

function gapsBetweenRanks({ rank, y, lines }: LaidOut, height: Float64Array): Gap[] {
  let depth = 0;
  for (const r of rank) depth = Math.max(depth, r + 1);
  const top = new Float64Array(depth).fill(Infinity);
  const bottom = new Float64Array(depth).fill(-Infinity);
  for (let v = 0; v < rank.length; v++) {
    top[rank[v]] = Math.min(top[rank[v]], y[v] - height[v] / 2);
    bottom[rank[v]] = Math.max(bottom[rank[v]], y[v] + height[v] / 2);
  }
  const gaps: Gap[] = [];
  for (let r = 1, above = bottom[0]; r < depth; r++) {
    // A rank with only lines has no box.
    if (top[r] === Infinity) continue;
    if (top[r] > above) {
      gaps.push({ top: above, bottom: top[r], y: (above + top[r]) / 2, lines: 0 });
    }
    above = bottom[r];
  }
  const starts = lineEnds(lines, 0);
  const ends = lineEnds(lines, 1);
  let started = 0;
  let ended = 0;
  for (const gap of gaps) {
    while (started < starts.length && starts[started] < gap.y) started++;
    while (ended < ends.length && ends[ended] < gap.y) ended++;
    gap.lines = started - ended;
  }
  return gaps;
}

/** The heights at which lines start (0) or end (1), sorted, px. */
function lineEnds({ start, points }: LaidOut["lines"], which: 0 | 1): Float64Array {
  const result = new Float64Array(start.length - 1);
  for (let e = 0; e < result.length; e++)
    result[e] = points[which ? start[e + 1] - 1 : start[e] + 1];
  return result.sort();
}
