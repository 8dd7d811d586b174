import { button, element, KEEP_KEYS } from "../dom/element";
import { fewText } from "../text/gradient";
import { oneLine } from "../text/shorten";
import type { LeafCellModel, LeafRowModel, LeafTableModel } from "../wire";

/** The text of a graph's last column: "step 2 of 5", "after backward". */
type When = string;

interface LeafTable {
  element: HTMLElement;
  update(table: LeafTableModel, labels: readonly string[], when: readonly When[]): void;
  select(place: number | null): void;
}

/** A table of all graphs' leaves, side by side. Differing values are bold, and their row has a sign. */
export function createLeafTable(select: (place: number) => void): LeafTable {
  const head = element("thead");
  const body = element("tbody");
  const note = element("p", "gw-small");
  const scroller = element(
    "div",
    {
      class: "gw-table-scroller",
      tabindex: 0,
      role: "group",
      "aria-label": "Leaves side by side",
      ...KEEP_KEYS,
    },
    element("table", "gw-table", head, body),
  );
  let selected: number | null = null;
  let rows: [LeafRowModel, HTMLElement][] = [];
  const mark = () => {
    for (const [{ cells }, row] of rows)
      row.classList.toggle(
        "is-selected",
        selected !== null && cells.some((cell) => cell.node === selected),
      );
  };
  return {
    element: element(
      "section",
      "gw-leaves",
      element("h2", "gw-table-title", "Leaves"),
      scroller,
      note,
    ),
    update(table, labels, when) {
      const focused = focusedRow(body);
      head.replaceChildren(...headRows(labels, when));
      rows = table.rows.map((row) => [row, tableRow(row, select)]);
      body.replaceChildren(...rows.map(([, row]) => row));
      if (focused !== null)
        body.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
      const left = table.total - table.rows.length;
      note.hidden = left <= 0;
      note.textContent =
        left > 0
          ? `${table.rows.length} of ${table.total} leaves are shown, those that are not alike in every graph first.`
          : "";
      mark();
    },
    select(place) {
      selected = place;
      mark();
    },
  };
}

/** The row whose button has the focus, so that the new rows can take it over. */
function focusedRow(body: HTMLElement): number | null {
  const active = (body.getRootNode() as Document | ShadowRoot).activeElement;
  const at = Array.from(body.querySelectorAll("button")).indexOf(active as HTMLButtonElement);
  return at < 0 ? null : at;
}

function headRows(labels: readonly string[], when: readonly When[]): HTMLElement[] {
  const own = ["requires_grad", "is_leaf", ".grad before"];
  return [
    element(
      "tr",
      {},
      element("th", { rowspan: 2, scope: "col" }, "leaf"),
      ...labels.map((label) =>
        element("th", { colspan: 4, scope: "colgroup", class: "gw-group-start" }, oneLine(label)),
      ),
    ),
    element(
      "tr",
      {},
      ...labels.flatMap((_, p) =>
        [...own, `.grad ${when[p]}`].map((text, i) =>
          element("th", { scope: "col", class: i === 0 ? "gw-group-start" : null }, text),
        ),
      ),
    ),
  ];
}

function tableRow(row: LeafRowModel, select: (place: number) => void): HTMLElement {
  const shown = row.cells.map(cellTexts);
  const there = shown.filter((_, p) => row.cells[p].is_leaf !== null);
  const differs = [0, 1, 2, 3].map((i) => new Set(there.map((texts) => texts[i])).size > 1);
  const place = row.cells.find((cell) => cell.node !== null)?.node ?? null;
  const name = oneLine(row.name ?? "unnamed");
  const heading = element(
    "th",
    { scope: "row" },
    button({ label: `Select ${name}`, text: name, class: "gw-link" }, () => {
      if (place !== null) select(place);
    }),
    (differs.includes(true) || row.cells.some(({ node }) => node === null)) &&
      element("span", { class: "gw-differs", title: "The graphs differ here" }, "≠"),
  );
  return element(
    "tr",
    {},
    heading,
    ...row.cells.flatMap((cell, p) =>
      cell.node === null
        ? [element("td", { colspan: 4, class: "gw-group-start gw-absent" }, "not in this graph")]
        : cell.is_leaf === null
          ? [
              element(
                "td",
                { colspan: 4, class: "gw-group-start gw-absent" },
                "static: no gradient",
              ),
            ]
          : shown[p].map((text, i) =>
              element(
                "td",
                {
                  class: [i === 0 && "gw-group-start", differs[i] && "is-different"]
                    .filter(Boolean)
                    .join(" "),
                },
                text,
              ),
            ),
    ),
  );
}

function cellTexts(cell: LeafCellModel): string[] {
  if (cell.node === null) return ["", "", "", ""];
  return [
    pythonBool(cell.requires_grad),
    pythonBool(cell.is_leaf),
    cell.before ? fewText(cell.before) : "None",
    cell.now ? fewText(cell.now) : "None",
  ];
}

function pythonBool(value: boolean | null): string {
  return value === null ? "" : value ? "True" : "False";
}
