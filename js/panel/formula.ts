import { element } from "../dom/element";
import { boardNumber } from "../text/gradient";
import type { DetailsModel, FormulaModel, InputModel, TensorSummary } from "../wire";
import { argumentName, moreInputs, nodeLink } from "./links";
import { section } from "./sections";
import { briefly } from "./tensor";

/** Per input, the incoming gradient and the local derivative, if both are single numbers. */
export type Locals = ReadonlyMap<number, readonly [came: number, local: number]>;

/** The incoming gradient, the derivative for each input as code, and the outgoing gradients. */
export function formulaSection(
  details: DetailsModel,
  locals: Locals = new Map(),
): HTMLElement | null {
  const { formula, inputs, grad_input, grad_output } = details;
  if (formula.length === 0 && grad_input === null) return null;
  const passed = inputs.map((input, i) => ({ input, gradient: grad_input?.[i] ?? null }));
  const items = formula.map((one) => {
    const found = passed.find(({ input }) => input.arg_nr === one.arg_nr);
    const local = one.arg_nr === null ? undefined : locals.get(one.arg_nr);
    return formulaItem(one, found?.input, found?.gradient ?? null, local);
  });
  const others = passed
    .filter(({ input }) => !formula.some(({ arg_nr }) => arg_nr === input.arg_nr))
    .filter(({ gradient }) => gradient !== null)
    .map(({ input, gradient }) => formulaItem(null, input, gradient));
  const [came] = grad_output ?? [];
  return section(
    {
      key: "formula",
      title: "Derivative",
      hint: came && grad_output?.length === 1 ? `came in ${briefly(came)}` : null,
    },
    [
      ...items,
      ...others,
      ...Array.from(new Set(formula.map(({ note }) => note)), (note) =>
        note === null ? null : element("p", "gw-note", note),
      ),
      moreInputs(details),
    ],
  );
}

function formulaItem(
  formula: FormulaModel | null,
  input: InputModel | undefined,
  gradient: TensorSummary | null,
  local?: readonly [number, number],
): HTMLElement {
  const nr = formula?.arg_nr ?? input?.arg_nr ?? null;
  const argument = formula?.argument ?? input?.argument ?? null;
  return element("div", "gw-item", [
    element("div", "gw-item-head", [
      element("span", "gw-argument", argumentName(argument, nr)),
      ...(input ? ["→", nodeLink(input.node, input.label, `formula.${nr}`)] : []),
      gradient && passedOn(gradient, local),
      formula?.source === "torch" &&
        element(
          "span",
          {
            class: "gw-chip",
            title:
              "Copied from the derivatives.yaml that the installed torch ships; it is C++ and not runnable here.",
          },
          "torch's own formula",
        ),
    ]),
    formula &&
      element("code", { class: "gw-code", title: standing(formula) }, readable(formula.code)),
    // The outgoing number is above.
    formula !== null &&
      formula.numbers !== null &&
      !(local && Number.isFinite(Number(formula.numbers))) &&
      element("code", "gw-code gw-numbers", readable(formula.numbers)),
  ]);
}

/** Say whether the code has reproduced a gradient. */
function standing({ source, code, checked }: FormulaModel): string | null {
  if (source === "torch" || code === "") return null;
  return checked
    ? "Python. It ran with the numbers of this pass and gave the gradient passed on."
    : "Python. It has not run with the numbers of a pass.";
}

/** The outgoing gradient; for single numbers also the product: "−12 × 2 = −24". */
function passedOn(gradient: TensorSummary, local?: readonly [number, number]): HTMLElement {
  const shown = element("span", { class: "gw-passed", title: "passed on" }, briefly(gradient));
  if (!local) return shown;
  const [came, by] = local;
  return element("span", { class: "gw-product", title: "came in × local derivative = passed on" }, [
    `${boardNumber(came)} × ${boardNumber(by)} = `,
    shown,
  ]);
}

/** Write the shape itself for torch's saved sizes in code. */
export function readable(code: string): string {
  return code
    .replace(/\b(\w+?)_sym_sizes\b/g, "$1.shape")
    .replace(/\b(\w+?)_sym_numel\b/g, "$1.numel()")
    .replace(/\b(\w+?)_sym_argsize_(\d+)\b/g, "$1.shape[$2]");
}
