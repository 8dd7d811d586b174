import { element } from "../dom/element";
import type { FormulaModel } from "../wire";
import { argumentName } from "./links";
import { type Opened, section } from "./sections";

/** The derivative with respect to each input, as code. */
export function formulaSection(
  formula: readonly FormulaModel[],
  opened: Opened,
  more: HTMLElement | null = null,
): HTMLElement | null {
  if (formula.length === 0) return null;
  return section("formula", "Derivative", null, opened, true, ...formula.map(formulaItem), more);
}

function formulaItem({
  input_nr,
  argument,
  code,
  numbers,
  source,
  note,
}: FormulaModel): HTMLElement {
  return element(
    "div",
    "gw-item",
    element(
      "div",
      "gw-item-head",
      element("span", "gw-dim", "gradient of"),
      element("span", "gw-argument", argumentName(argument, input_nr)),
      source === "torch" &&
        element(
          "span",
          {
            class: "gw-chip",
            title:
              "Copied from the derivatives.yaml that the installed torch ships; it is C++ and not runnable here.",
          },
          "torch's own formula",
        ),
    ),
    element("code", "gw-code", code),
    numbers !== null && element("code", "gw-code gw-numbers", numbers),
    note !== null && element("p", "gw-note", note),
  );
}
