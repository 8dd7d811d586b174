import { element } from "../dom/element";
import type { Progress } from "../steps/recording";
import type { DetailsModel, TensorSummary } from "../wire";
import { argumentName, type GoTo, moreInputs, nodeLink } from "./links";
import { andMore, type Opened, section, sentence } from "./sections";
import { tensorView } from "./tensor";

/** What `.grad` holds, what flowed in and what was passed on: three things learners mix up, so each says which it is. */
export function tensorSections(
  details: DetailsModel,
  opened: Opened,
  go: GoTo,
  progress: Progress | null = null,
): HTMLElement[] {
  const stored = grad(details, opened, progress !== null);
  const flow = [gradOutput(details, opened), gradInput(details, opened, go)];
  if (details.value === null) return [...flow, stored];
  // A leaf is there to hold its value and its gradient; an operation, to pass gradients on.
  const value = section(
    "value",
    "Value",
    null,
    opened,
    true,
    tensorView(details.value, "value"),
    sentence(details.value.origin),
  );
  return [stored, value, ...flow];
}

function grad(details: DetailsModel, opened: Opened, stepping: boolean): HTMLElement {
  const { grad, grad_note, name, explained } = details;
  const title = `Stored in ${name !== null && name.length < 24 ? name : ""}.grad`;
  if (grad !== null) {
    const isZero = grad.numel > 0 && grad.zeros === grad.numel;
    const note = isZero ? sentence(explained) : null;
    return section("grad", title, null, opened, true, note, tensorView(grad, "grad"));
  }
  // While one steps through a pass, what that pass did says more.
  const why = stepping ? grad_note.grad : (explained ?? grad_note.grad);
  return section("grad", title, "None", opened, true, sentence(why));
}

function gradOutput(
  { grad_output, grad_note, outputs, output_count }: DetailsModel,
  opened: Opened,
): HTMLElement {
  return section(
    "grad_output",
    "Gradient that flowed in",
    grad_output === null ? "None" : null,
    opened,
    true,
    ...(grad_output === null
      ? [sentence(grad_note.grad_output)]
      : grad_output.map((gradient, i) =>
          element(
            "div",
            "gw-item",
            grad_output.length > 1 &&
              element("div", "gw-item-head", outputs[i]?.name ?? `output ${i}`),
            gradient === null
              ? nothing("None arrived for this output.")
              : tensorView(gradient, `grad_output.${i}`),
          ),
        )),
    grad_output && andMore(Math.max(output_count, grad_output.length), grad_output.length),
  );
}

function gradInput(details: DetailsModel, opened: Opened, go: GoTo): HTMLElement {
  const { grad_input, grad_note, inputs, kind } = details;
  return section(
    "grad_input",
    "Gradients passed on",
    grad_input === null ? "None" : null,
    opened,
    kind === "op",
    ...(grad_input === null
      ? [sentence(grad_note.grad_input)]
      : grad_input.map((gradient, i) => passedOn(gradient, inputs[i], i, go))),
    grad_input && moreInputs(details),
  );
}

function passedOn(
  gradient: TensorSummary | null,
  input: DetailsModel["inputs"][number] | undefined,
  i: number,
  go: GoTo,
): HTMLElement {
  return element(
    "div",
    "gw-item",
    input !== undefined &&
      element(
        "div",
        "gw-item-head",
        element("span", "gw-argument", argumentName(input.argument, input.input_nr)),
        "→",
        nodeLink(input.node, input.label, `grad_input.${i}`, go),
      ),
    gradient === null
      ? nothing("None was passed on here.")
      : tensorView(gradient, `grad_input.${i}`),
  );
}

function nothing(text: string): HTMLElement {
  return element("p", "gw-note", text);
}
