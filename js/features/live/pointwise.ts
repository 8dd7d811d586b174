import { places, storing, type Tensor } from "./tensors";

export type Operand = Tensor | number | boolean;
/** A call's arguments by the names of torch's schema. */
export type Arguments = Readonly<Record<string, unknown>>;
export type Call = (args: Arguments, outputs: readonly (Tensor | null)[]) => void;

/** Whether torch rounds a plain number to float32 before it computes with some tensors. */
function isSingle(operands: readonly Operand[]): boolean {
  const kinds = operands.map((one) => (isTensor(one) ? one.dtype : null));
  return kinds.includes("float32") && !kinds.includes("float64");
}

export function isTensor(value: unknown): value is Tensor {
  return typeof value === "object" && value !== null && "data" in value;
}

/** A function that reads an operand, expanded to a shape. */
function reading(
  operand: Operand,
  shape: readonly number[],
  single: boolean,
): (i: number) => number {
  if (!isTensor(operand)) {
    const value = single ? Math.fround(Number(operand)) : Number(operand);
    return () => value;
  }
  const { data } = operand;
  const at = places(operand, shape);
  return (i) => data[at[i]];
}

function pointwise(names: readonly string[], compute: (...values: number[]) => number): Call {
  return (args, [out]) => {
    if (!out) return;
    const operands = names.map((name) => args[name] as Operand);
    const single = isSingle(operands);
    const at = places(out);
    const store = storing(out);
    const [a, b, c] = operands.map((one) => reading(one, out.shape, single));
    const { length } = at;
    if (c) for (let i = 0; i < length; i++) store(at[i], compute(a(i), b(i), c(i)));
    else if (b) for (let i = 0; i < length; i++) store(at[i], compute(a(i), b(i)));
    else for (let i = 0; i < length; i++) store(at[i], compute(a(i)));
  };
}

const unary = (compute: (x: number) => number) => pointwise(["self"], compute);
const binary = (compute: (x: number, y: number) => number) => pointwise(["self", "other"], compute);
const truth = (compute: (x: number, y: number) => boolean) =>
  binary((x, y) => (compute(x, y) ? 1 : 0));

/** Python's remainder, with the sign of the divisor. */
function remainder(x: number, y: number): number {
  const rest = x % y;
  return rest !== 0 && rest < 0 !== y < 0 ? rest + y : rest;
}

function roundHalfEven(x: number): number {
  const low = Math.floor(x);
  const rest = x - low;
  if (rest !== 0.5) return rest < 0.5 ? low : low + 1;
  return low % 2 === 0 ? low : low + 1;
}

const roundTo: Call = (args, outputs) => {
  const scale = 10 ** Number(args.decimals ?? 0);
  unary((x) => roundHalfEven(x * scale) / scale)(args, outputs);
};

const ROOT_PI = Math.sqrt(Math.PI);

/** The error function: a series without cancellation near 0, else by `erfc`. */
export function erf(x: number): number {
  if (Math.abs(x) > 2) return x > 0 ? 1 - erfc(x) : erfc(-x) - 1;
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / ROOT_PI) * Math.exp(-x * x) * sum;
}

/** 1 - erf(x), by a continued fraction where that would cancel. */
export function erfc(x: number): number {
  if (Number.isNaN(x)) return x;
  if (x < 2) return x < -2 ? 2 - erfc(-x) : 1 - erf(x);
  if (x > 27) return 0;
  let below = x;
  for (let n = 120; n > 0; n--) below = x + n / 2 / below;
  return Math.exp(-x * x) / (ROOT_PI * below);
}

function power(x: number, y: number): number {
  // JavaScript calls 1 ** NaN and (-1) ** Infinity NaN; C calls them 1.
  if (x === 1 || (x === -1 && Math.abs(y) === Number.POSITIVE_INFINITY)) return 1;
  return x ** y;
}

const clamp: Call = (args, outputs) => {
  const { min, max } = args;
  const low = min ?? Number.NEGATIVE_INFINITY;
  const high = max ?? Number.POSITIVE_INFINITY;
  const limited = (x: number, least: number, most: number) =>
    Number.isNaN(x) ? x : Math.min(Math.max(x, least), most);
  pointwise(["self", "min", "max"], limited)({ ...args, min: low, max: high }, outputs);
};

const divide: Call = (args, outputs) => {
  const { rounding_mode } = args;
  if (rounding_mode === "floor") return binary((x, y) => Math.floor(x / y))(args, outputs);
  if (rounding_mode === "trunc") return binary((x, y) => Math.trunc(x / y))(args, outputs);
  return binary((x, y) => x / y)(args, outputs);
};

/** Torch's bit operations, on bool and whole numbers alike. */
const invert: Call = (args, outputs) =>
  unary((args.self as Tensor).dtype === "bool" ? (x) => 1 - x : (x) => -x - 1)(args, outputs);

export const POINTWISE: Readonly<Record<string, Call>> = {
  abs: unary(Math.abs),
  acos: unary(Math.acos),
  acosh: unary(Math.acosh),
  add: pointwise(["self", "other", "alpha"], (x, y, scale) => x + scale * y),
  asin: unary(Math.asin),
  asinh: unary(Math.asinh),
  atan: unary(Math.atan),
  atan2: binary(Math.atan2),
  atanh: unary(Math.atanh),
  bitwise_and: binary((x, y) => x & y),
  bitwise_not: invert,
  bitwise_or: binary((x, y) => x | y),
  bitwise_xor: binary((x, y) => x ^ y),
  ceil: unary(Math.ceil),
  clamp,
  cos: unary(Math.cos),
  cosh: unary(Math.cosh),
  div: divide,
  eq: truth((x, y) => x === y),
  erf: unary(erf),
  erfc: unary(erfc),
  exp: unary(Math.exp),
  exp2: unary((x) => 2 ** x),
  expm1: unary(Math.expm1),
  floor: unary(Math.floor),
  fmod: binary((x, y) => x % y),
  ge: truth((x, y) => x >= y),
  gt: truth((x, y) => x > y),
  isinf: unary((x) => (Math.abs(x) === Number.POSITIVE_INFINITY ? 1 : 0)),
  isnan: unary((x) => (Number.isNaN(x) ? 1 : 0)),
  le: truth((x, y) => x <= y),
  log: unary(Math.log),
  log10: unary(Math.log10),
  log1p: unary(Math.log1p),
  log2: unary(Math.log2),
  logical_and: truth((x, y) => x !== 0 && y !== 0),
  logical_not: unary((x) => (x === 0 ? 1 : 0)),
  logical_or: truth((x, y) => x !== 0 || y !== 0),
  logical_xor: truth((x, y) => (x !== 0) !== (y !== 0)),
  lt: truth((x, y) => x < y),
  maximum: binary(Math.max),
  minimum: binary(Math.min),
  mul: binary((x, y) => x * y),
  ne: truth((x, y) => x !== y),
  neg: unary((x) => -x),
  pow: pointwise(["self", "exponent"], power),
  reciprocal: unary((x) => 1 / x),
  relu: unary((x) => (x <= 0 ? 0 : x)),
  remainder: binary(remainder),
  round: roundTo,
  rsqrt: unary((x) => 1 / Math.sqrt(x)),
  rsub: pointwise(["self", "other", "alpha"], (x, y, scale) => y - scale * x),
  sgn: unary((x) => Math.sign(x) || 0),
  sigmoid: unary((x) => 1 / (1 + Math.exp(-x))),
  sign: unary((x) => Math.sign(x) || 0),
  sin: unary(Math.sin),
  sinh: unary(Math.sinh),
  sqrt: unary(Math.sqrt),
  sub: pointwise(["self", "other", "alpha"], (x, y, scale) => x - scale * y),
  tan: unary(Math.tan),
  tanh: unary(Math.tanh),
  trunc: unary(Math.trunc),
  where: pointwise(["condition", "self", "other"], (is, x, y) => (is !== 0 ? x : y)),
  xlogy: binary((x, y) => (Number.isNaN(y) ? y : x === 0 ? 0 : x * Math.log(y))),
};
