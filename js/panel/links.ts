import { element, KEEP_KEYS } from "../dom/element";
import { formatShape, oneLine } from "../text/shorten";
import type { ConstantModel, ConsumerModel, DetailsModel, InputModel, NoGradInput } from "../wire";
import { andMore } from "./sections";

/** A button that selects another node; the panel listens. */
export function nodeLink(id: number, label: string, key: string): HTMLElement {
  const title = `Select ${oneLine(label)}`;
  const attributes = { type: "button", class: "gw-link", title, ...KEEP_KEYS };
  return element("button", { ...attributes, "data-goto": id, "data-focus": key }, oneLine(label));
}

export function argumentName(argument: string | null, argNr: number | null): string {
  return argument ?? (argNr === null ? "an input" : `input ${argNr}`);
}

export function inputRows(
  inputs: readonly InputModel[],
  noGrad: readonly NoGradInput[],
  constants: readonly ConstantModel[] = [],
): HTMLElement {
  const rows: { nr: number | null; argument: string | null; content: (Node | false)[] }[] = [
    ...inputs.map((input) => ({
      nr: input.arg_nr,
      argument: input.argument,
      content: [
        nodeLink(input.node, input.label, `input.${input.arg_nr}`),
        input.output_nr > 0 && element("span", "gw-dim", `output ${input.output_nr}`),
        input.shape !== null && element("span", "gw-mono gw-dim", formatShape(input.shape)),
      ],
    })),
    ...noGrad.map((input) => ({
      nr: input.arg_nr,
      argument: input.argument,
      content: [element("span", "gw-dim gw-no-grad", "needs no gradient")],
    })),
    ...constants.map((constant, i) => ({
      nr: constant.arg_nr,
      argument: constant.argument,
      content: [
        nodeLink(constant.node, constant.label, `constant.${i}`),
        constant.shape !== null && element("span", "gw-mono gw-dim", formatShape(constant.shape)),
        element("span", "gw-dim gw-no-grad", "no gradient"),
      ],
    })),
  ];
  rows.sort((a, b) => (a.nr ?? Number.POSITIVE_INFINITY) - (b.nr ?? Number.POSITIVE_INFINITY));
  return element(
    "ul",
    "gw-rows",
    rows.map(({ nr, argument, content }) =>
      element("li", {}, [element("span", "gw-argument", argumentName(argument, nr)), ...content]),
    ),
  );
}

/** The number of inputs beyond the panel's list, with and without gradient. */
export function moreInputs(details: DetailsModel): HTMLElement | null {
  const { inputs, no_grad_inputs, constants, input_count } = details;
  return andMore(input_count, inputs.length + no_grad_inputs.length + constants.length);
}

const MOST_CONSUMERS = 50;

/** The first consumers. */
export function consumerRows(consumers: readonly ConsumerModel[], count: number): HTMLElement {
  const rest = count - MOST_CONSUMERS;
  return element("ul", "gw-rows", [
    ...consumers
      .slice(0, MOST_CONSUMERS)
      .map((consumer, i) =>
        element("li", {}, [
          nodeLink(consumer.node, consumer.label, `consumer.${i}`),
          element("span", "gw-dim", `as ${argumentName(consumer.argument, consumer.arg_nr)}`),
        ]),
      ),
    rest > 0 && element("li", "gw-dim", `and ${rest} more`),
  ]);
}
