import { colourKey } from "../../controls/colour_controls";
import { element, scroller, selectLink, table, tableRow } from "../../dom/element";
import { oneLine } from "../../text/shorten";
import type { ErrorSourceModel, ErrorsModel } from "../../wire";
import { errorLegend, errorText, readErrors } from "./errors";

interface ErrorTable {
  element: HTMLElement;
  update(errors: ErrorsModel | null): void;
  select(place: number | null): void;
}

const COLUMNS = ["operation", "where", "arises here", "error of its value", "of its gradient"];

/** A table of the places where error arises, largest first, below a summary and the colour scale. */
export function createErrorTable(select: (place: number) => void): ErrorTable {
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
    update(errors) {
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
    select(place) {
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
    cells.map(([text, isOut]) => element("td", isOut ? "is-different" : "", text)),
  );
}
