import { element, scroller, selectLink, table, tableRow } from "../../dom/element";
import { counted } from "../../text/number";
import { oneLine } from "../../text/shorten";
import type { BecameModel, CompiledModel } from "../../wire";

/** The most rows of the table; the picture still marks the other operations. */
const MOST_ROWS = 200;

/** The signs at places: what the compiler did with an operation, or which call a node belongs to. */
export function compiledSigns(models: readonly CompiledModel[]): ReadonlyMap<number, string> {
  const signs = new Map<number, string>();
  for (const { operations, adding, others } of models) {
    for (const place of adding) signs.set(place, "adds up");
    for (const place of others) signs.set(place, "no counterpart");
    for (const became of operations) {
      const of = `of ${oneLine(became.label).replace(/Backward\d*$/, "")}`;
      for (const place of became.again) signs.set(place, `again, ${of}`);
      for (const place of became.calls) if (place !== became.place) signs.set(place, of);
      const own = ownSign(became);
      if (own !== null) signs.set(became.place, own);
    }
  }
  return signs;
}

function ownSign({ how, calls }: BecameModel): string | null {
  if (how === "dropped") return "no call";
  if (how === "unknown") return "no counterpart";
  return how === "several" ? counted(calls.length, "call") : null;
}

/** A table of every operation's fate in compiled code, in forward order, below a summary. */
export function createCompiledTable(select: (place: number) => void) {
  const section = element("section", { class: "gw-compiled", hidden: true });
  return {
    element: section,
    update(models: readonly CompiledModel[]) {
      section.hidden = models.length === 0;
      section.replaceChildren(
        element("h2", "gw-table-title", "What became of each operation"),
        ...models.flatMap((model) => [
          element("p", "gw-about", oneLine(model.said)),
          operationsTable(model, select),
        ]),
      );
    },
  };
}

function operationsTable(
  { operations }: CompiledModel,
  select: (place: number) => void,
): HTMLElement {
  const rows = operations.slice(0, MOST_ROWS).map((became) => {
    const label = oneLine(became.label);
    return tableRow(
      selectLink(label, () => select(became.place)),
      element("td", "", oneLine(became.where)),
      element("td", became.how === "unknown" ? "gw-absent" : "", oneLine(became.said)),
    );
  });
  const columns = ["operation", "where", "in compiled code"];
  const left = operations.length - rows.length;
  const more = left > 0 ? [element("p", "gw-about", `and ${counted(left, "more operation")}`)] : [];
  return scroller(
    "What became of each operation",
    table(columns, rows, { class: "gw-table" }),
    ...more,
  );
}
