import type { FewModel, JsonNumber, TensorSummary, Values } from "../../wire";

/** The most numbers of a value and of a gradient that a node shows, as in Python. */
const MOST_OF_VALUE = 16;
const MOST_OF_GRADIENT = 6;
const MOST_LISTED = 64;

/** A number as JSON carries it. */
export function jsonNumber(value: number): JsonNumber {
  if (Number.isFinite(value)) return value;
  return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/** Numbers in row-major order as nested lists of a shape. */
export function nested(numbers: readonly JsonNumber[], shape: readonly number[]): Values {
  if (shape.length === 0) return numbers[0];
  const [size, ...inner] = shape;
  const step = numbers.length / size;
  return Array.from({ length: size }, (_, i) =>
    nested(numbers.slice(i * step, (i + 1) * step), inner),
  );
}

export function valuesOf(numbers: readonly number[], shape: readonly number[]): Values | null {
  return numbers.length <= MOST_OF_VALUE && numbers.length > 0
    ? nested(numbers.map(jsonNumber), shape)
    : null;
}

export function norm(numbers: readonly number[]): number {
  return Math.sqrt(numbers.reduce((sum, one) => sum + one * one, 0));
}

/** A gradient's norm, and its values if they are few. */
export function fewOf(numbers: readonly number[], shape: readonly number[]): FewModel {
  const isSmall = numbers.length <= MOST_OF_GRADIENT && numbers.length > 0;
  return {
    values: isSmall ? nested(numbers.map(jsonNumber), shape) : null,
    norm: jsonNumber(norm(numbers)),
  };
}

/** The summary of a tensor whose numbers have changed. */
export function summaryOf(
  before: TensorSummary,
  numbers: readonly number[],
  shape: readonly number[],
): TensorSummary {
  const isWhole = numbers.length <= MOST_LISTED;
  const hasNan = numbers.some(Number.isNaN);
  const extreme = (pick: (...all: number[]) => number) =>
    numbers.length > 0 && numbers.length < 50_000
      ? jsonNumber(hasNan ? Number.NaN : pick(...numbers))
      : null;
  const mean = numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
  const count = (is: (one: number) => boolean) => numbers.filter(is).length;
  return {
    ...before,
    values: isWhole ? nested(numbers.map(jsonNumber), shape) : null,
    truncated: !isWhole && before.truncated,
    indices: isWhole ? null : before.indices,
    min: extreme(Math.min),
    max: extreme(Math.max),
    mean: jsonNumber(mean),
    norm: jsonNumber(norm(numbers)),
    nan: count(Number.isNaN),
    inf: count((one) => Math.abs(one) === Number.POSITIVE_INFINITY),
    zeros: count((one) => one === 0),
  };
}
