import type { FewModel, JsonNumber, Values } from "../wire";

/** A number in as few characters as tell it apart: three digits, no zeros at the end, "3.2e-3". */
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

/** A number as on a board: four digits, no zeros at the end, a true minus sign; 0 for -0. */
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

/** A norm in so many digits, zeros at the end included: "2.00", "0.0964", "5.38e−4". */
export function normNumber(norm: JsonNumber, digits = 3): string {
  if (typeof norm !== "number") return norm;
  if (norm === 0) return "0";
  if (norm >= 1e-3 && norm < 1e5) {
    const rounded = norm.toPrecision(digits);
    return rounded.includes("e") ? String(Number(rounded)) : rounded;
  }
  return norm
    .toExponential(digits - 1)
    .replace("e+", "e")
    .replace("-", "\u2212");
}

/** Few numbers on a board: "[2, −1]". */
export function boardValues(values: Values): string {
  return Array.isArray(values) ? `[${values.map(boardValues).join(", ")}]` : boardNumber(values);
}

/** A gradient in short: its numbers when they are few, else its norm, "\u20160.304\u2016". */
export function fewText({ values, norm }: FewModel): string {
  if (values !== null) return boardValues(values);
  return norm === null ? "?" : `\u2016${boardNumber(norm)}\u2016`;
}

/** Nested values on one line: "-4", "[2, 1]". */
export function compactValues(values: Values): string {
  return Array.isArray(values)
    ? `[${values.map(compactValues).join(", ")}]`
    : compactNumber(values);
}

/** Whether any of the values is NaN or infinite. */
export function hasNotFinite(values: Values): boolean {
  if (Array.isArray(values)) return values.some(hasNotFinite);
  return values === "nan" || values === "inf" || values === "-inf";
}

/**
 * What a label can say of a gradient, best first: its values when there are few, "grad 4", and its norm, "grad norm 3.2e-3".
 * `word` says what it is; "" for a gradient on its edge.
 */
export function gradientTexts(
  values: Values | null,
  norm: JsonNumber | null,
  word: string,
): string[] {
  const texts = values === null ? [] : [`${word} ${compactValues(values)}`.trim()];
  return norm === null ? texts : [...texts, `${word} norm ${compactNumber(norm)}`.trim()];
}
