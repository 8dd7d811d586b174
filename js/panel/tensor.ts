import { element } from "../dom/element";
import {
  counted,
  formatCount,
  formatNumber,
  fullNumber,
  isFloat,
  isNotFinite,
} from "../text/number";
import { formatShape } from "../text/shape";
import type { JsonNumber, TensorSummary } from "../wire";
import { valuesTable } from "./values";

/** The largest tensor that is written on one line. */
const FEW = 4;
/** The largest tensor that is shown without statistics. */
const SEEN_AT_ONCE = 16;

/** Whether the numbers of a tensor fit on a line. */
export function isFew({ values, numel, truncated }: TensorSummary): boolean {
  return values !== null && numel <= FEW && !truncated;
}

/** A tensor: its type, values and statistics. */
export function tensorView(summary: TensorSummary, key: string): HTMLElement {
  return element(
    "div",
    "gw-tensor",
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
  );
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
  return cells.length === 0 ? null : element("dl", "gw-stats", ...cells);
}

function stat(name: string, text: string, title: string, alarm: boolean): HTMLElement {
  return element(
    "div",
    { class: alarm ? "gw-stat is-alarming" : "gw-stat", title },
    element("dt", {}, name),
    element("dd", {}, text),
  );
}
