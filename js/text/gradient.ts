import type { FewModel, JsonNumber, Values } from "../wire";
import { fullNumber } from "./number";

/** The shortest distinguishing form of a number: three digits, no trailing zeros, "3.2e-3". */
export function compactNumber(value: JsonNumber | boolean): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return value;
  if (Number.isInteger(value) && Math.abs(value) < 1e5)
    return Object.is(value, -0) ? "-0" : String(value);
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e5)
    return size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  const [digits, exponent] = value.toExponential(2).split("e");
  return `${Number(digits)}e${exponent.replace("+", "")}`;
}

const MOST_IN_ROWS = 16;

/** A number as on a board: four digits, no trailing zeros, a true minus sign; 0 for -0. */
export function boardNumber(value: JsonNumber | boolean): string {
  if (typeof value !== "number") return compactNumber(value);
  const size = Math.abs(value);
  let text = String(size);
  if (!Number.isInteger(size) || size >= 1e6) {
    const isPlain = size >= 1e-3 && size < 1e5;
    const [digits, exponent] = size.toExponential(3).split("e");
    text = isPlain
      ? String(Number(size.toPrecision(4)))
      : `${Number(digits)}e${exponent.replace("+", "")}`;
  }
  return (value < 0 ? `-${text}` : text).replaceAll("-", "\u2212");
}

/** A matrix as on a board, a line per row; null for other values, and for more than 16 numbers. */
export function boardRows(values: Values): string[] | null {
  if (!Array.isArray(values) || values.length < 2 || !values.every(Array.isArray)) return null;
  const rows: Values[][] = values;
  if (rows.flat().length > MOST_IN_ROWS || rows.some((row) => row.some(Array.isArray))) return null;
  return rows.map(boardValues);
}

/** Few numbers as on a board: "[2, −1]". */
export function boardValues(values: Values): string {
  return Array.isArray(values) ? `[${values.map(boardValues).join(", ")}]` : boardNumber(values);
}

/** The most numbers of a list that is rounded to fit. */
const MOST_ROUNDED = 3;

/** A number, or up to three, with three digits and down to `least`, as far as the text is shorter; none of other values. */
export function rounded(values: Values | null, least = 2): Values[] {
  const numbers = Array.isArray(values) ? values : [values];
  if (numbers.length > MOST_ROUNDED || !numbers.every((one) => typeof one === "number")) return [];
  const whole = boardValues(numbers).length;
  // The largest number rounds to infinity.
  return [3, 2]
    .filter((digits) => digits >= least)
    .map((digits) => numbers.map((one) => Number(one.toPrecision(digits))))
    .filter((some) => some.every(Number.isFinite) && boardValues(some).length < whole)
    .map((some) => (Array.isArray(values) ? some : some[0]));
}

/** A short gradient: its numbers if few, else its norm, "\u20160.304\u2016". */
export function fewText({ values, norm }: FewModel): string {
  if (values !== null) return boardValues(values);
  return norm === null ? "?" : normOf(norm);
}

/** A norm between its signs, "\u20160.304\u2016". */
export function normOf(norm: JsonNumber): string {
  return `\u2016${boardNumber(norm)}\u2016`;
}

/** Few numbers in full, with a true minus sign: "[2.333333, −1]"; 0 for -0. */
export function exactly(values: Values): string {
  if (Array.isArray(values)) return `[${values.map(exactly).join(", ")}]`;
  return (values === 0 ? "0" : fullNumber(values)).replaceAll("-", "−");
}

/** A gradient in full: its numbers if few, else its norm. */
export function exactText({ values, norm }: FewModel): string {
  if (values !== null) return exactly(values);
  return norm === null ? "?" : `‖${exactly(norm)}‖`;
}

/** Nested values on one line: "-4", "[2, 1]". */
export function compactValues(values: Values): string {
  return Array.isArray(values)
    ? `[${values.map(compactValues).join(", ")}]`
    : compactNumber(values);
}

/** Whether a gradient contains NaN or infinity. */
export function isAlarming({ values, norm }: FewModel): boolean {
  return typeof norm === "string" || (values !== null && hasNotFinite(values));
}

/** Whether any of the values is NaN or infinite. */
export function hasNotFinite(values: Values): boolean {
  if (Array.isArray(values)) return values.some(hasNotFinite);
  return values === "nan" || values === "inf" || values === "-inf";
}

/**
 * The texts of a gradient, best first: its values if few, "grad 4", and its norm, "grad ‖0.304‖". `word` names it; ""
 * for a gradient on its edge.
 */
export function gradientTexts({ values, norm }: FewModel, word: string): string[] {
  const known = [values !== null && boardValues(values), norm !== null && normOf(norm)];
  return known.flatMap((text) => (text === false ? [] : `${word} ${text}`.trim()));
}
