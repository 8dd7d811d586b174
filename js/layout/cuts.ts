import type { LaidOut } from "./types";

/** A gap between two ranks, from the lowest box above it to the highest below, px. */
export interface Cut {
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
export function chooseCuts(part: LaidOut, height: Float64Array, count: number): Cut[] {
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
