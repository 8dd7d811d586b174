import { type Direction, isHorizontal } from "../layout/direction";
import { across } from "../place/extents";
import type { Wrap } from "../place/laid_out";
import type { Placement } from "../scene/placement";
import type { Sized } from "../scene/sizes";
import { LEGIBLE, type Size } from "../scene/views";
import { lengths, type Score } from "./score";

/** Between columns of small cards that would otherwise be wrapped, px. */
export const DENSE = 10;
/** The factors on the room's proportions that wrapping tries. */
const WRAPS = [1, 1.7, 2.5, 3.5, 5, 7];
/** Shorter pictures, as a share of the room, are not wrapped. */
const WRAPPED = 0.8;
/** Between two rows, and around them if they are in boxes, about, px. */
const BETWEEN = 48;
const FRAMED = 30;
/** The most wraps that are tried for one room, in a draft and in a picture. */
const MOST_WRAPS = [3, 2];

/** Everything in one row. */
export const ROW: Wrap = { long: Number.POSITIVE_INFINITY, wrapsBoxes: false };

/** The same with the least gaps. */
export const DENSE_ROW: Wrap = { ...ROW, rankGap: DENSE };

/** The most by which a wrap is larger than its guess. */
const SLACK = 1.25;
/** A larger guess is surely legible. */
const SURE = 1.6 * LEGIBLE;

/**
 * The wraps of a picture that may be legible, one per number of rows, by a guess from the picture in one row: surely
 * legible ones with few rows first, then the larger ones. If there is none, the largest one, unless a `draft` is made.
 */
export function wrapsFor(row: Placement, sized: Sized, room: Size, isDraft: boolean): Wrap[] {
  const [long, high] = lengths(room, sized.direction);
  const found = new Map<number, { wrap: Wrap; scale: number }>();
  for (const times of WRAPS) {
    const aspect = (times * high) / long;
    const rows = Math.round(Math.sqrt((aspect * row.height) / (row.width + BETWEEN)));
    if (rows < 2 || found.has(rows)) continue;
    const breadth = breadthOf(row, sized, rows);
    const scale = Math.min((long * rows) / row.height, high / breadth);
    found.set(rows, { wrap: times === 1 ? {} : { long: WRAPPED * long, aspect }, scale });
  }
  const all = [...found.values()].sort((a, b) => Math.min(b.scale, SURE) - Math.min(a.scale, SURE));
  const some = all.filter(({ scale }) => SLACK * scale >= LEGIBLE);
  return (
    some.length > 0 || isDraft ? some.slice(0, MOST_WRAPS[Number(isDraft)]) : all.slice(0, 1)
  ).map(({ wrap }) => wrap);
}

/** Whether a picture in one row may be legible with the least gaps. */
export function fitsDense(
  { rank, width, height }: Placement,
  room: Size,
  direction: Direction,
): boolean {
  const [long, high] = lengths(room, direction);
  const least = height - DENSE * Math.max(...rank);
  return Math.min(long / least, high / width) >= LEGIBLE;
}

/** The breadth of all rows, if a picture in one row is cut into so many of one length. */
function breadthOf(
  { x, y, owner, height }: Placement,
  { shapes, direction, plan }: Sized,
  rows: number,
): number {
  const between = BETWEEN + (plan.frames.length > 0 ? FRAMED : 0);
  const low = new Float64Array(rows).fill(Infinity);
  const high = new Float64Array(rows).fill(-Infinity);
  x.forEach((at, v) => {
    const r = Math.min(rows - 1, Math.floor((rows * y[v]) / height));
    const half = across(shapes[owner[v]], isHorizontal(direction)) / 2;
    low[r] = Math.min(low[r], at - half);
    high[r] = Math.max(high[r], at + half);
  });
  return high.reduce((sum, at, r) => sum + Math.max(0, at - low[r]) + between, 0);
}

/** Wraps without the faults of a picture, most promising first. */
export function repairsOf({ isBroken, isBent, isDense, isAlone }: Score, wraps: Wrap[]): Wrap[] {
  const whole = wraps.map((wrap) => ({ ...wrap, wrapsBoxes: false }));
  const between = { between: true, wrapsBoxes: false, rankGap: DENSE };
  return [
    ...(isBroken
      ? [false, true].map((wrapsWhole) => ({ ...wraps[0], ...between, wrapsWhole }))
      : []),
    ...(isBent ? whole.flatMap((w) => (isDense ? [w, { ...w, rankGap: DENSE }] : [w])) : []),
    ...(isAlone ? wraps.map((wrap) => ({ ...wrap, wrapsWhole: false })) : []),
  ];
}
