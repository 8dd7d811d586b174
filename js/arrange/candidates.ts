import type { Direction } from "../layout/direction";
import { CARD_GAPS, type Wrap } from "../place/laid_out";
import type { Placement } from "../scene/placement";
import type { Sized } from "../scene/sizes";
import { LEGIBLE, type Size } from "../scene/views";
import { lengths, type Score } from "./score";

/** Between columns that would otherwise be wrapped, px: of boxes, and of small cards, whose signs reach between them. */
export const DENSE = 10;
const DENSE_CARDS = 4;
/** The factors on the room's proportions that wrapping tries: few rows first. */
const WRAPS = [1, 1.7, 2.5, 3.5, 5, 7];
/** Shorter pictures, as a share of the room, are not wrapped. */
const WRAPPED = 0.8;
/** Between two rows, about, px. */
const BETWEEN = 48;

/** Everything in one row. */
export const ROW: Wrap = { long: Number.POSITIVE_INFINITY, wrapsBoxes: false };

/** The same with close large cards. */
export const TIGHT_ROW: Wrap = { ...ROW, rankGap: 12 };

/** The same with the least gaps. */
export const DENSE_ROW: Wrap = { ...ROW, rankGap: DENSE_CARDS };

/** The wraps of a picture, from few rows to many: one per number of rows, unless open boxes may be wrapped differently. */
export function wrapsFor(row: Placement, { plan, direction }: Sized, room: Size): Wrap[] {
  const [long, high] = lengths(room, direction);
  const isOpen = plan.frames.length > 0;
  const tried = new Set<number>();
  return WRAPS.flatMap((times) => {
    const aspect = (times * high) / long;
    const rows = Math.round(Math.sqrt((aspect * row.height) / (row.width + BETWEEN)));
    if (rows < 2 || (tried.has(rows) && !isOpen)) return [];
    tried.add(rows);
    return [times === 1 ? {} : { long: WRAPPED * long, aspect }];
  });
}

/** Whether a picture in one row may be legible with the least gaps. */
export function fitsDense(
  { rank, width, height }: Placement,
  room: Size,
  direction: Direction,
): boolean {
  const [long, high] = lengths(room, direction);
  const least = height - (CARD_GAPS.near.rank - DENSE_CARDS) * Math.max(...rank);
  return Math.min(long / least, high / width) >= LEGIBLE;
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
