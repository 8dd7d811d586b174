import { element, focusable } from "../dom/element";
import { fewText, normOf } from "../text/gradient";
import {
  counted,
  formatCount,
  formatNumber,
  fullNumber,
  isFloat,
  isNotFinite,
} from "../text/number";
import { formatShape } from "../text/shorten";
import type { JsonNumber, TensorSummary, Values } from "../wire";

/** The largest tensor that is written on one line. */
const FEW = 4;
/** The largest tensor that is shown without statistics. */
const SEEN_AT_ONCE = 16;

/** Whether the numbers of a tensor fit on a line. */
export function isFew({ values, numel, truncated }: TensorSummary): boolean {
  return values !== null && numel <= FEW && !truncated;
}

/** A tensor in a few words: its numbers if it has few and at most so many, else its norm, else its shape. */
export function briefly(summary: TensorSummary, most = FEW): string {
  const { values, norm, numel, shape } = summary;
  if (isFew(summary) && (numel <= most || norm === null)) return fewText({ values, norm });
  return norm === null ? formatShape(shape) : normOf(norm);
}

/** A tensor: its type, values and statistics. */
export function tensorView(summary: TensorSummary, key: string): HTMLElement {
  return element("div", "gw-tensor", [
    element("div", "gw-tensor-head", tensorHead(summary)),
    summary.note !== null && element("p", "gw-note", summary.note),
    summary.values !== null && valuesTable(summary, key),
    summary.truncated && summary.values !== null
      ? element(
          "p",
          "gw-small",
          `${shownCount(summary)} of ${formatCount(summary.numel)} values, evenly spread`,
        )
      : null,
    statistics(summary),
  ]);
}

/** `(64, 3) · float32 · cpu` */
export function tensorHead({
  shape,
  dtype,
  device,
}: Pick<TensorSummary, "shape" | "dtype" | "device">): string {
  return [formatShape(shape), shortDtype(dtype), device].join(" · ");
}

export function shortDtype(dtype: string): string {
  return dtype.replace(/^torch\./, "");
}

function shownCount({ values }: TensorSummary): string {
  const count = (value: unknown): number =>
    Array.isArray(value) ? value.reduce((sum: number, part) => sum + count(part), 0) : 1;
  return formatCount(count(values));
}

function statistics(summary: TensorSummary): HTMLElement | null {
  if (summary.numel === 0 && summary.note === null) {
    return element("p", "gw-small", "This tensor is empty: it holds no values.");
  }
  if (summary.numel <= SEEN_AT_ONCE && summary.values !== null && !summary.truncated) return null;
  const float = isFloat(summary.dtype);
  const numbers: [string, JsonNumber | null][] = [
    ["min", summary.min],
    ["max", summary.max],
    ["mean", summary.mean],
    ["norm", summary.norm],
  ];
  const counts: [string, number | null][] = [
    ["nan", summary.nan],
    ["inf", summary.inf],
    ["zeros", summary.zeros],
  ];
  const cells = [
    ...numbers
      .filter((entry): entry is [string, JsonNumber] => entry[1] !== null)
      .map(([name, value]) =>
        stat(
          name,
          formatNumber(value, float || name === "mean" || name === "norm"),
          fullNumber(value),
          isNotFinite(value),
        ),
      ),
    ...counts
      .filter((entry): entry is [string, number] => entry[1] !== null)
      .map(([name, value]) =>
        stat(name, formatCount(value), counted(value, "value"), name !== "zeros" && value > 0),
      ),
  ];
  return cells.length === 0 ? null : element("dl", "gw-stats", cells);
}

function stat(name: string, text: string, title: string, alarm: boolean): HTMLElement {
  return element("div", { class: alarm ? "gw-stat is-alarming" : "gw-stat", title }, [
    element("dt", {}, name),
    element("dd", {}, text),
  ]);
}

type Scalar = JsonNumber | boolean;

/** The number of columns of a wrapped vector. */
const VECTOR_COLUMNS = 4;

/** A two-dimensional slice of a tensor. */
interface Slice {
  /** Indices of the leading dimensions, then ":" for the shown ones: "[0, 2, :, :]"; null for 2-D and less. */
  heading: string | null;
  rows: { label: string; cells: { value: Scalar; title: string }[] }[];
  columns: string[] | null;
}

/** Cut nested values into slices with their indices. */
export function slices(values: Values, indices: number[][] | null): Slice[] {
  const cell = (value: Scalar, position: number[]) => ({
    value,
    title: `${position.length > 0 ? `[${position.join(", ")}] = ` : ""}${fullNumber(value)}`,
  });
  if (!Array.isArray(values))
    return [{ heading: null, columns: null, rows: [{ label: "", cells: [cell(values, [])] }] }];
  const depth = depthOf(values);
  const index = (dim: number, i: number) => indices?.[dim]?.[i] ?? i;
  if (depth === 1) {
    const vector = values as Scalar[];
    const rows: Slice["rows"] = [];
    for (let i = 0; i < vector.length; i += VECTOR_COLUMNS) {
      rows.push({
        label: vector.length > VECTOR_COLUMNS ? `${index(0, i)}` : "",
        cells: vector
          .slice(i, i + VECTOR_COLUMNS)
          .map((value, j) => cell(value, [index(0, i + j)])),
      });
    }
    return [{ heading: null, columns: null, rows }];
  }
  const cut = (part: Values[], at: number[]): Slice[] => {
    if (at.length < depth - 2)
      return part.flatMap((inner, i) => cut(inner as Values[], [...at, index(at.length, i)]));
    const rows = (part as Scalar[][]).map((row, i) => ({
      label: `${index(depth - 2, i)}`,
      cells: row.map((value, j) => cell(value, [...at, index(depth - 2, i), index(depth - 1, j)])),
    }));
    const width = Math.max(0, ...rows.map((row) => row.cells.length));
    const heading = depth > 2 ? `[${[...at, ":", ":"].join(", ")}]` : null;
    const columns = Array.from({ length: width }, (_, j) => `${index(depth - 1, j)}`);
    return [{ heading, columns, rows }];
  };
  return cut(values, []);
}

function depthOf(values: Values): number {
  let depth = 0;
  for (let at: Values = values; Array.isArray(at); at = at[0] ?? 0) depth += 1;
  return depth;
}

/** The values as small scrolling tables. */
function valuesTable({ values, indices, dtype }: TensorSummary, key: string): HTMLElement | null {
  if (values === null || isEmpty(values)) return null;
  const float = isFloat(dtype);
  const parts = slices(values, indices);
  if (!Array.isArray(values)) {
    const [{ value, title }] = parts[0].rows[0].cells;
    return element("div", { class: "gw-scalar", title }, formatNumber(value, float));
  }
  const kept = { "data-scroll": `${key}.values`, "data-focus": `${key}.values` };
  return element(
    "div",
    { ...focusable("gw-values", "Values"), ...kept },
    parts.map((part) => sliceTable(part, float)),
  );
}

function sliceTable({ heading, rows, columns }: Slice, float: boolean): HTMLElement {
  return element("table", {}, [
    heading !== null && element("caption", {}, heading),
    columns !== null &&
      element(
        "thead",
        {},
        element("tr", {}, [
          element("td", {}),
          ...columns.map((label) => element("th", { scope: "col" }, label)),
        ]),
      ),
    element(
      "tbody",
      {},
      rows.map(({ label, cells }) =>
        element("tr", {}, [
          label !== "" && element("th", { scope: "row" }, label),
          ...cells.map(({ value, title }) =>
            element("td", { title, class: cellClass(value) }, formatNumber(value, float)),
          ),
        ]),
      ),
    ),
  ]);
}

function cellClass(value: Scalar): string | null {
  if (isNotFinite(value)) return "is-alarming";
  return value === 0 ? "is-zero" : null;
}

function isEmpty(values: Values): boolean {
  return Array.isArray(values) && values.every(isEmpty);
}
