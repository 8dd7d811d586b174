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
    { class: "gw-item" },
    element(
      "div",
      { class: "gw-item-head" },
      element("span", { class: "gw-dim" }, "gradient of"),
      element("span", { class: "gw-argument" }, argumentName(argument, input_nr)),
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
    element("code", { class: "gw-code" }, code),
    numbers !== null && element("code", { class: "gw-code gw-numbers" }, numbers),
    note !== null && element("p", { class: "gw-note" }, note),
  );
}
