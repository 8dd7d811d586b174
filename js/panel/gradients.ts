import { element } from "../dom/element";
import type { Progress } from "../steps/recording";
import type { DetailsModel, TensorSummary } from "../wire";
import { facts, outputsSection } from "./facts";
import { argumentName, moreInputs, nodeLink } from "./links";
import { andMore, section, sentence } from "./sections";
import { isFew, tensorHead, tensorView } from "./tensor";

/** Explain an empty gradient cell in one sentence; null if there is a gradient or the value explains itself. */
export function whyNone(details: DetailsModel, progress: Progress | null): HTMLElement | null {
  const paragraph = sentence(reasonOf(details, progress));
  if (paragraph) paragraph.dataset.section = "why";
  return paragraph;
}

/** Explain why a leaf's value differs from the forward pass'; null if it does not. */
export function whyChanged({ kind, value_note }: DetailsModel): HTMLElement | null {
  const paragraph = kind === "leaf" ? sentence(value_note) : null;
  if (paragraph) paragraph.dataset.section = "changed";
  return paragraph;
}

function reasonOf(details: DetailsModel, progress: Progress | null): string | null {
  const { kind, grad, grad_output, grad_note, explained } = details;
  if (kind !== "leaf") return grad_output === null ? grad_note.grad_output : null;
  if (grad !== null) return grad.numel > 0 && grad.zeros === grad.numel ? explained : null;
  // While stepping, the pass' own note says more.
  return progress ? grad_note.grad : (explained ?? grad_note.grad);
}

/** The node's tensor in full: its numbers, and their source. */
export function tensorSection(details: DetailsModel): HTMLElement {
  const { value, value_note, shape, dtype, device, grad, grad_note, kind } = details;
  const known = shape && dtype && device ? tensorHead({ shape, dtype, device }) : null;
  return section({ key: "tensor", title: "Tensor", hint: known, open: false }, [
    facts(details),
    value && element("div", { "data-section": "value" }, tensorView(value, "value")),
    sentence(value?.origin ?? (kind === "leaf" ? null : value_note)),
    grad &&
      element("div", { "data-section": "grad" }, [
        element("b", {}, ".grad"),
        tensorView(grad, "grad"),
      ]),
    kind === "op" && grad === null && sentence(grad_note.grad),
    outputsSection(details.outputs, details.output_count),
  ]);
}

/** The incoming and outgoing gradients in full, if they have more than a few numbers. */
export function flowSections(details: DetailsModel): HTMLElement[] {
  const { grad_output, grad_input } = details;
  const isMore = (all: (TensorSummary | null)[] | null) =>
    all !== null && (all.length > 1 || all.some((one) => one && !isFew(one)));
  const found: HTMLElement[] = [];
  if (isMore(grad_output)) found.push(gradOutput(details));
  if (grad_input?.some((one) => one && !isFew(one))) found.push(gradInput(details));
  return found;
}

function gradOutput({ grad_output, outputs, output_count }: DetailsModel): HTMLElement {
  const all = grad_output ?? [];
  return section({ key: "grad_output", title: "Gradient that flowed in", open: all.length > 1 }, [
    ...all.map((gradient, i) =>
      element("div", "gw-item", [
        all.length > 1 && element("div", "gw-item-head", outputs[i]?.name ?? `output ${i}`),
        gradient === null
          ? sentence("None arrived for this output.")
          : tensorView(gradient, `grad_output.${i}`),
      ]),
    ),
    andMore(Math.max(output_count, all.length), all.length),
  ]);
}

function gradInput(details: DetailsModel): HTMLElement {
  const { grad_input, inputs } = details;
  return section({ key: "grad_input", title: "Gradients passed on", open: false }, [
    ...(grad_input ?? []).map((gradient, i) => passedOn(gradient, inputs[i], i)),
    moreInputs(details),
  ]);
}

function passedOn(
  gradient: TensorSummary | null,
  input: DetailsModel["inputs"][number] | undefined,
  i: number,
): HTMLElement {
  return element("div", "gw-item", [
    input !== undefined &&
      element("div", "gw-item-head", [
        element("span", "gw-argument", argumentName(input.argument, input.arg_nr)),
        "→",
        nodeLink(input.node, input.label, `grad_input.${i}`),
      ]),
    gradient === null
      ? sentence("None was passed on here.")
      : tensorView(gradient, `grad_input.${i}`),
  ]);
}
