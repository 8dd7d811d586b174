import { COMPARE_PARTS } from "../../compare/compare_part";
import { colourKey } from "../../controls/colour_controls";
import { entry } from "../../controls/legend";
import { element } from "../../dom/element";
import { labelParts } from "../../paint/label_parts";
import { part } from "../../paint/parts";
import { oneLine } from "../../text/shorten";
import type { ErrorsModel } from "../../wire";
import { type Errors, errorLegend, errorSigns, errorTint, readErrors } from "./errors";

/** The errors between two graphs: a summary, colours and numbers. */
COMPARE_PARTS.push((channel) => {
  const { element, update } = createErrorSummary();
  let errors: Errors | null = null;
  return {
    element,
    update() {
      const model = channel.get("errors");
      errors = model && readErrors(model);
      update(model, errors);
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
    const parts = labelParts({ x: 0, y: 0, width: 50, height: 14, text: words });
    return [part("g", { class: `gw-error-sign ${name}` }, parts)];
  };
  return [
    entry("relative error, the larger of value and gradient", 54, sign("", "2.9e−3"), 20),
    entry("out of tolerance", 54, sign("is-out", "2.9e−3"), 20),
    entry("the first that is, and how far", 54, sign("is-out is-first", "first"), 20),
  ];
}

/** The summary and the colour scale. */
function createErrorSummary() {
  const summary = element("p", "gw-about");
  const key = element("div", "gw-colour-key");
  const section = element("section", { class: "gw-errors", hidden: true }, [
    element("h2", "gw-table-title", "Errors"),
    summary,
    key,
  ]);
  return {
    element: section,
    update(model: ErrorsModel | null, errors: Errors | null) {
      section.hidden = model === null;
      if (model === null || errors === null) return;
      summary.textContent = oneLine(model.sentence);
      key.replaceChildren(...colourKey(errorLegend(errors)));
    },
  };
}
