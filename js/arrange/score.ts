import { type Direction, isHorizontal } from "../layout/direction";
import { aroundBoxes } from "../place/laid_out";
import { outputAlone } from "../place/output_row";
import type { Placement } from "../scene/placement";
import type { Sized } from "../scene/sizes";
import { fitView, LEGIBLE, type Size } from "../scene/views";

/** The costs of faults in a legible picture. */
const COST = {
  /** As many bends as lines; more of them. */
  bends: 0.5,
  manyBends: 0.6,
  /** A box in two rows, beside others. */
  broken: 0.2,
  /** An output in a row of its own. */
  alone: 0.01,
};
/** The score of a legible picture, without its faults. */
const BEST = 3;
/** The breadth of a box broken into two rows, as a multiple of its breadth in one. */
const TWO_ROWS = 1.5;
/** A line with more bends changes rows more than twice. */
const MOST_BENDS = 8;

/** A picture's faults, and its score: its scale if it is illegible, more if it is legible. */
export interface Score {
  value: number;
  isFaultless: boolean;
  isBroken: boolean;
  isAlone: boolean;
  /** Whether it has more bends than lines, and a line with very many. */
  isBent: boolean;
  isDense: boolean;
}

/** The scale at which a room shows a whole picture. */
export function scaleIn(room: Size, { width, height }: Size, direction: Direction): number {
  const [wide, high] = lengths({ width: height, height: width }, direction);
  return fitView({ width: wide, height: high }, room).k;
}

/** A room's length along the flow and across it. */
export function lengths({ width, height }: Size, direction: Direction): [number, number] {
  return isHorizontal(direction) ? [width, height] : [height, width];
}

/** The score of a picture whose boxes are not wrapped in another one. */
export function scoreOf(placed: Placement, sized: Sized, room: Size, row: Placement): Score {
  const { plan, direction } = sized;
  const scale = scaleIn(room, placed, direction);
  const bends = plan.edges.map((_, e) => Math.max(0, placed.route(e).length - 2));
  const [sum, lines] = [bends.reduce((all, count) => all + count, 0), plan.edges.length];
  const around = aroundBoxes(plan);
  const isBroken = plan.frames.some(
    ({ parent }, f) =>
      around[parent] && !around[f] && placed.boxes.width[f] > TWO_ROWS * row.boxes.width[f],
  );
  const isAlone = outputAlone(placed, sized) !== null;
  const isBent = sum > lines;
  const faults =
    COST.bends * Math.min(1, sum / lines) +
    (isBent ? COST.manyBends * (1 - lines / sum) : 0) +
    (isBroken ? COST.broken : 0) +
    (isAlone ? COST.alone : 0);
  const value = scale < LEGIBLE ? scale : BEST - faults;
  const isDense = Math.max(...bends) > MOST_BENDS;
  return {
    value,
    isFaultless: !(isBroken || isAlone || isBent),
    isBroken,
    isAlone,
    isBent,
    isDense,
  };
}
