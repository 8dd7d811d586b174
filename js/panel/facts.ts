import { element } from "../dom/element";
import { formatShape } from "../text/shorten";
import type { DetailsModel, OutputModel } from "../wire";
import { pythonText } from "./saved";
import { andMore, section } from "./sections";
import { shortDtype } from "./tensor";

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
