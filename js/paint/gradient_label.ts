import type { Place } from "../scene/grid";
import type { CardSize } from "../scene/node_shape";
import { boardValues, normOf, rounded } from "../text/gradient";
import type { FewModel, JsonNumber } from "../wire";

/** A gradient on an edge, or beside a node. */
export interface GradientLabel extends Place {
  key: string;
  text: string;
  /** The full text, for the tooltip. */
  exact?: string;
  /** Whether it contains NaN or infinity. */
  alarming: boolean;
  /** Its edge; null beside a node. */
  edge: number | null;
  /** Ids of its nodes: both ends of the edge, or the one beside it. */
  nodes: readonly number[];
  /** The steps after which it appears, and after which it is replaced. */
  from: number;
  until?: number;
  /** The kind of cell that contains it. */
  cell?: CardSize | "row" | "share" | "sum";
  /** Whether a long text is set smaller. */
  small?: boolean;
  /** Whether it is a `.grad`, and whether that is None. */
  stored?: boolean;
  none?: boolean;
  /** Whether all of it is 0. */
  zero?: boolean;
  /** Whether it is the product of the incoming gradient and the local derivative. */
  local?: boolean;
  /** Whether it changed after the pass. */
  changed?: boolean;
  /** The word over it while it is neither stored nor missing; and whether its number is below a word in any case. */
  word?: string;
  isLow?: boolean;
  /** Whether the card ends above and below the cell, with round corners. */
  rounds?: readonly [boolean, boolean];
  /** Whether it is the sum over the copies of a leaf, with a sign instead of a word. */
  ofCopies?: boolean;
  /** The words instead of ".grad" if the pass added to an earlier value: ".grad 4 + 12". */
  added?: string;
  /** Whether it waits there for its node to run. */
  arrived?: boolean;
  /** Whether it explains a missing number. */
  note?: boolean;
  /** Whether it appears only while its node runs: beside a box with its own number. */
  passing?: boolean;
}

/** A gradient's texts for a cell, best first: its values, also rounded to `least` digits, and its norm; a number always has its sign. */
export function fewOf(gradient: FewModel, least?: number): string[] {
  const { values, norm } = gradient;
  const isOne = values !== null && !Array.isArray(values);
  return [
    ...(values === null ? [] : [boardValues(values)]),
    ...roundedOf(gradient, least),
    ...(norm === null || isOne ? [] : [normOf(norm), normOf(shortened(norm))]),
  ];
}

/** The shorter texts of a number or of up to three numbers with fewer digits, best first; none of other gradients. */
export function roundedOf({ values }: FewModel, least?: number): string[] {
  return rounded(values, least).map(boardValues);
}

/** With two digits: "1.7e−5". */
function shortened(value: JsonNumber): JsonNumber {
  return typeof value === "number" ? Number(value.toPrecision(2)) : value;
}

/** A number as a summand: "+ 166.6", "− 27.77"; other texts stay. */
export function asAdded(text: string): string {
  if (/^\u2212[\d\u221e]/.test(text)) return `\u2212 ${text.slice(1)}`;
  return /^[\d\u221e]/.test(text) ? `+ ${text}` : text;
}
