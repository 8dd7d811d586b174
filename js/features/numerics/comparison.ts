import { COMPARE_PARTS } from "../../compare/compare_part";
import { colourKey } from "../../controls/colour_controls";
import { entry } from "../../controls/legend";
import { element, scroller, selectLink, table, tableRow } from "../../dom/element";
import { labelParts } from "../../paint/label_parts";
import { part } from "../../paint/parts";
import { oneLine } from "../../text/shorten";
import type { ErrorSourceModel, ErrorsModel } from "../../wire";
import { type Errors, errorLegend, errorSigns, errorText, errorTint, readErrors } from "./errors";

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
    const parts = labelParts({ x: 0, y: 0, width: 50, height: 14, text: words });
    return [part("g", { class: `gw-error-sign ${name}` }, parts)];
  };
  return [
    entry("relative error, the larger of value and gradient", 54, sign("", "2.9e−3"), 20),
    entry("out of tolerance", 54, sign("is-out", "2.9e−3"), 20),
    entry("the first that is, and how far", 54, sign("is-out is-first", "first"), 20),
  ];
}

const COLUMNS = ["operation", "where", "arises here", "error of its value", "of its gradient"];

/** A table of the places where error arises, largest first, below a summary and the colour scale. */
function createErrorTable(select: (place: number) => void) {
  const said = element("p", "gw-about");
  const key = element("div", "gw-colour-key");
  const box = scroller("Where error arises");
  const section = element("section", { class: "gw-errors", hidden: true }, [
    element("h2", "gw-table-title", "Where error arises"),
    said,
    key,
    box,
  ]);
  let rows: [number, HTMLElement][] = [];
  let selected: number | null = null;
  const mark = () => {
    for (const [place, row] of rows) row.classList.toggle("is-selected", place === selected);
  };
  return {
    element: section,
    update(errors: ErrorsModel | null) {
      section.hidden = errors === null;
      if (errors === null) return;
      said.textContent = oneLine(errors.sentence);
      key.replaceChildren(...colourKey(errorLegend(readErrors(errors))));
      rows = errors.sources.map((source) => [source.place, rowOf(source, select)]);
      const shown = rows.map(([, row]) => row);
      box.replaceChildren(table(COLUMNS, shown, { class: "gw-table" }));
      box.hidden = rows.length === 0;
      mark();
    },
    select(place: number | null) {
      selected = place;
      mark();
    },
  };
}

function rowOf(source: ErrorSourceModel, select: (place: number) => void): HTMLElement {
  const label = oneLine(source.label);
  const own = errorText(source.own);
  const cells: [string, boolean][] = [
    [oneLine(source.where), false],
    [source.is_estimate ? `≈ ${own}` : own, false],
    [errorText(source.value), source.leaves === "value"],
    [errorText(source.grad), source.leaves === "gradient"],
  ];
  return tableRow(
    selectLink(label, () => select(source.place)),
    ...cells.map(([text, isOut]) => element("td", isOut ? "is-different" : "", text)),
  );
}
