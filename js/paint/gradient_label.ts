import type { CardSize } from "../scene/node_shape";
import type { Place } from "../scene/scene";
import { boardNumber, boardValues, hasNotFinite } from "../text/gradient";
import type { JsonNumber, Values } from "../wire";

/** A gradient written on the edge that carries it, or what a node holds of it, written beside the node. */
export interface GradientLabel extends Place {
  key: string;
  text: string;
  /** The same in full, for who points at it. */
  exact?: string;
  /** Whether it holds NaN or an infinity. */
  alarming: boolean;
  /** The edge that carries it; null beside a node. */
  edge: number | null;
  /** Ids of the nodes that it belongs to: both ends of the edge, or the one beside it. */
  nodes: readonly number[];
  /** How many steps have to run before it is there, and after how many something else is. */
  from: number;
  until?: number;
  /** The kind of card in whose cell it stands. */
  cell?: CardSize | "row" | "sum" | "total" | "gate" | "lens";
  /** Whether it is set smaller than others in such a cell, as it is long. */
  small?: boolean;
  /** Whether it is a `.grad`, and whether that is None. */
  stored?: boolean;
  none?: boolean;
  /** Whether it is a product, of the gradient that arrived and the local derivative. */
  local?: boolean;
  /** Whether something has changed it since the pass. */
  changed?: boolean;
  /** What it is the sum of, where the pass added to what was there before. */
  added?: string;
  /** Whether it waits there for its node to run. */
  arrived?: boolean;
  /** Whether it is only told while a node runs that it belongs to: beside boxes, whose own number says more. */
  passing?: boolean;
}

/** What the sum under the rows of a leaf is. */
export function totalWord({
  stored,
  changed,
  none,
}: Pick<GradientLabel, "stored" | "changed" | "none">): string {
  return changed ? ".grad now" : stored || none ? ".grad" : "this pass";
}

/** What can be said of a gradient in a cell, best first; a single number is never told without its sign. */
export function fewOf(values: Values | null, norm: JsonNumber | null): string[] {
  const isOne = values !== null && !Array.isArray(values);
  return [
    ...(values === null ? [] : [boardValues(values)]),
    ...(norm === null || isOne ? [] : [inNorm(boardNumber(norm)), inNorm(shortNumber(norm))]),
  ];
}

function inNorm(text: string): string {
  return `\u2016${text}\u2016`;
}

/** With fewer digits where it has an exponent: "1.7e−5". */
function shortNumber(value: JsonNumber): string {
  return boardNumber(typeof value === "number" ? Number(value.toPrecision(2)) : value);
}

export function isAlarming(values: Values | null, norm: JsonNumber | null): boolean {
  return typeof norm === "string" || (values !== null && hasNotFinite(values));
}

/** A number as what is added to others: "+ 166.6", "− 27.77"; anything else as it is. */
export function asAdded(text: string): string {
  if (/^\u2212[\d\u221e]/.test(text)) return `\u2212 ${text.slice(1)}`;
  return /^[\d\u221e]/.test(text) ? `+ ${text}` : text;
}
