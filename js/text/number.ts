import type { JsonNumber } from "../wire";

/** Whether this is one of the words that stand for numbers JSON does not have. */
export function isNotFinite(value: unknown): boolean {
  return value === "nan" || value === "inf" || value === "-inf";
}

/** A number in about the width torch prints it: four decimals, or scientific. A whole `float` gets its ".0". */
export function formatNumber(value: JsonNumber | boolean, float = true): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return value;
  if (Number.isInteger(value) && Math.abs(value) < 1e6) {
    const digits = Object.is(value, -0) ? "-0" : String(value);
    return float ? `${digits}.0` : digits;
  }
  if (!float && Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? value.toFixed(4) : pythonExponent(value.toExponential(4));
}

/** The number in full, for a tooltip. */
export function fullNumber(value: JsonNumber | boolean): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  return typeof value === "number" ? pythonExponent(String(value)) : value;
}

/** A count with thousands separated: 9,408. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** "1 node", "2 nodes"; the plural is given when it is not just an s. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** A count in three digits, "148 K"; small ones as they are. */
export function shortCount(count: number): string {
  if (count < 1000) return String(count);
  let unit = -1;
  let value = count;
  // A value that would be written as 1000 goes up to the next unit.
  while (unit < 0 || (Number(value.toPrecision(3)) >= 1000 && unit < COUNT_UNITS.length - 1)) {
    value /= 1000;
    unit++;
  }
  return `${value.toPrecision(3)} ${COUNT_UNITS[unit]}`;
}

const COUNT_UNITS = ["K", "M", "G", "T"];

/** A norm in so many digits, with the zeros that are among them: "10.0", "0.575", "4.22e\u22125"; 0 for none. */
export function normText(norm: number, digits = 3): string {
  if (norm === 0) return "0";
  if (!Number.isFinite(norm)) return "NaN or Inf";
  if (norm >= 1e-3 && norm < 1e5)
    return Number(norm.toPrecision(digits)) >= 10 ** digits
      ? norm.toFixed(0)
      : norm.toPrecision(digits);
  return norm
    .toExponential(digits - 1)
    .replace("+", "")
    .replace("-", "\u2212");
}

export function isFloat(dtype: string): boolean {
  return /float|half|double/.test(dtype);
}

/** Python pads exponents to two digits: 1e-05. */
function pythonExponent(text: string): string {
  return text.replace(/e([+-])(\d)$/, "e$10$2");
}

const BYTE_UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];

/** A size in about three digits: "512 bytes", "1.5 KiB", "24 MiB". */
export function formatBytes(bytes: number): string {
  let unit = 0;
  let value = bytes;
  // A value that would be written as 1024 goes up to the next unit.
  while (unit + 1 < BYTE_UNITS.length && value >= 1023.5) {
    value /= 1024;
    unit++;
  }
  const text = unit === 0 || value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  return `${text} ${unit === 0 && text === "1" ? "byte" : BYTE_UNITS[unit]}`;
}
