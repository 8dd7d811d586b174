import type { Direction } from "../layout/direction";
import type { Wrap } from "../place/laid_out";
import type { Placement } from "../scene/placement";
import { LEGIBLE, type Size } from "../scene/views";
import { lengths, scaleIn } from "./score";

/** The gain in scale that another wrap needs. */
const WORTH = 1.05;

/** A picture and its wrap. */
export interface Wrapped {
  placed: Placement;
  wrap: Wrap;
}

/** The direction of a picture, how to lay it out in rows, and whether no more layouts may be made. */
interface Rows {
  direction: Direction;
  laid: (wrap: Wrap) => Placement;
  isSpent: () => boolean;
}

/**
 * Wrap a picture for a room: with the first of some wraps that is legible, or with `isLargest` with the one that makes it
 * largest. More rows make it shorter and broader, so the search goes from the wrap `from` to more of them while the
 * length limits the scale, or to fewer while the breadth does.
 */
export function inRows(
  first: Wrapped,
  wraps: readonly Wrap[],
  room: Size,
  { direction, laid, isSpent }: Rows,
  { from = 0, isLargest = false } = {},
): Wrapped {
  const scale = (placed: Placement) => scaleIn(room, placed, direction);
  const [long, high] = lengths(room, direction);
  let best = first;
  let step = 0;
  let last = first.placed;
  for (let at = from; at >= 0 && at < wraps.length && !isSpent(); at += step) {
    const placed = laid(wraps[at]);
    if (scale(placed) > WORTH * scale(best.placed)) best = { placed, wrap: wraps[at] };
    if (!isLargest && best.wrap === wraps[at] && scale(best.placed) >= LEGIBLE) break;
    // A box around most of a picture stays whole.
    if (isLargest && placed.width === last.width && placed.height === last.height) break;
    last = placed;
    const next = high / placed.width <= long / placed.height ? -1 : 1;
    if (step === -next) break;
    step = next;
  }
  return best;
}
