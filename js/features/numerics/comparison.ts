import { COMPARE_PARTS } from "../../compare/compare_part";
import { entry } from "../../compare/legend";
import { svgElement, svgText } from "../../dom/element";
import { createErrorTable } from "./error_table";
import { type Errors, errorSigns, errorTint, readErrors } from "./errors";

/** The errors between two graphs, as a table, and as colours and numbers. */
COMPARE_PARTS.push((channel, choose) => {
  const { element, update, select } = createErrorTable(choose);
  let errors: Errors | null = null;
  return {
    element,
    select,
    update() {
      const model = channel.get("errors");
      errors = model && readErrors(model);
      update(model);
    },
    paint: (pane, scene) =>
      errors && {
        signs: errorSigns(errors, pane, scene),
        tint: errorTint(errors, pane, scene),
      },
    legend: () => (errors ? errorEntries() : []),
  };
});

function errorEntries(): HTMLElement[] {
  const sign = (name: string, words: string) => {
    const text = svgText(words, { x: 0, y: 3.4 });
    const box = svgElement("rect", { x: -25, y: -7, width: 50, height: 14, rx: 3 });
    return svgElement("g", `gw-error-sign ${name}`, box, text);
  };
  return [
    entry("relative error, the larger of value and gradient", 54, sign("", "2.9e−3")),
    entry("out of tolerance", 54, sign("is-out", "2.9e−3")),
    entry("the first that is, and how far", 54, sign("is-out is-first", "first")),
  ];
}
