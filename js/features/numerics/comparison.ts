import { COMPARE_PARTS } from "../../compare/compare_part";
import { entry } from "../../controls/legend";
import { part } from "../../paint/parts";
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
    const text = part("text", { x: 0, y: 3.4 }, words);
    const box = part("rect", { x: -25, y: -7, width: 50, height: 14, rx: 3 });
    return [part("g", { class: `gw-error-sign ${name}` }, [box, text])];
  };
  return [
    entry("relative error, the larger of value and gradient", 54, sign("", "2.9e−3"), 20),
    entry("out of tolerance", 54, sign("is-out", "2.9e−3"), 20),
    entry("the first that is, and how far", 54, sign("is-out is-first", "first"), 20),
  ];
}
