import { element } from "../dom/element";
import { counted } from "../text/number";
import { formatShape } from "../text/shorten";
import type { DetailsModel, OutputModel, SavedModel } from "../wire";
import { andMore, section } from "./sections";
import { shortDtype, tensorView } from "./tensor";

/** Attributes of the node's tensor, as torch calls them. */
export function facts(details: DetailsModel): HTMLElement {
  const rows: [string, string][] = [];
  if (details.shape !== null) rows.push(["shape", formatShape(details.shape)]);
  if (details.dtype !== null) rows.push(["dtype", shortDtype(details.dtype)]);
  if (details.device !== null) rows.push(["device", details.device]);
  for (const name of ["requires_grad", "is_leaf"] as const) {
    const value = details[name];
    if (value !== null) rows.push([name, pythonText(value)]);
  }
  return factList(rows);
}

export function factList(rows: readonly [string, string][]): HTMLElement {
  return element(
    "dl",
    "gw-facts",
    rows.map(([name, value]) =>
      element("div", {}, [element("dt", {}, name), element("dd", {}, value)]),
    ),
  );
}

/** The tensors that a node made, if there is more to show than the facts. */
export function outputsSection(outputs: readonly OutputModel[], count: number): HTMLElement | null {
  if (outputs.length < 2) return null;
  return section({ key: "outputs", title: "Outputs", hint: String(count) }, [
    element(
      "ul",
      "gw-rows",
      outputs.map(({ output_nr, name, shape, dtype, is_root }) =>
        element("li", {}, [
          element("span", "gw-argument", String(output_nr)),
          name !== null && element("b", {}, name),
          element(
            "span",
            "gw-mono gw-dim",
            [shape && formatShape(shape), dtype && shortDtype(dtype)].filter(Boolean).join(" · "),
          ),
          is_root && element("span", "gw-chip gw-chip-root", "output"),
        ]),
      ),
    ),
    andMore(count, outputs.length),
  ]);
}

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
