import { element } from "../dom/element";
import { counted } from "../text/number";
import type { SavedModel } from "../wire";
import { andMore, section } from "./sections";
import { tensorView } from "./tensor";

/** The tensors and values that the node saves for backward. */
export function savedSection(saved: readonly SavedModel[], count: number): HTMLElement {
  const freed = saved.some((item) => item.freed);
  return section(
    {
      key: "saved",
      title: "Saved for backward",
      hint: saved.length === 0 ? "nothing" : freed ? "freed" : counted(count, "value"),
      open: false,
    },
    [
      ...(saved.length === 0
        ? [element("p", "gw-note", "This node needs no values of the forward pass.")]
        : saved.map(savedItem)),
      andMore(count, saved.length),
    ],
  );
}

function savedItem({ name, summary, scalar, freed, note }: SavedModel): HTMLElement {
  const plain = summary === null && !freed && (scalar !== null || note === null);
  return element("div", "gw-item", [
    element("div", "gw-item-head", [
      element("span", "gw-argument", name),
      plain && element("span", "gw-mono", pythonText(scalar)),
      freed && element("span", "gw-chip gw-chip-freed", "freed"),
    ]),
    note !== null && element("p", "gw-note", note),
    summary !== null && tensorView(summary, `saved.${name}`),
  ]);
}

/** Format a plain value like Python. */
export function pythonText(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonText).join(", ")}]`;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
