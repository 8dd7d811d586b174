import { COMPARE_PARTS } from "../../compare/compare_part";
import { element, scroller, selectLink, table, tableRow } from "../../dom/element";
import { andMore } from "../../panel/sections";
import { counted } from "../../text/number";
import { oneLine } from "../../text/shorten";
import type { CompiledModel, CompiledOperationModel } from "../../wire";

/** The most rows of the table; the picture still marks the other operations. */
const MOST_ROWS = 200;

/** The signs at places: what the compiler did with an operation, or which call a node belongs to. */
export function compiledSigns(models: readonly CompiledModel[]): ReadonlyMap<number, string> {
  const signs = new Map<number, string>();
  for (const { operations, adding, others } of models) {
    for (const place of adding) signs.set(place, "adds up");
    for (const place of others) signs.set(place, "no counterpart");
    for (const operation of operations) {
      const of = `of ${oneLine(operation.label).replace(/Backward\d*$/, "")}`;
      for (const place of operation.again) signs.set(place, `again, ${of}`);
      for (const place of operation.calls) if (place !== operation.place) signs.set(place, of);
      const own = ownSign(operation);
      if (own !== null) signs.set(operation.place, own);
    }
  }
  return signs;
}

function ownSign({ how, calls }: CompiledOperationModel): string | null {
  if (how === "dropped") return "no call";
  if (how === "unknown") return "no counterpart";
  return how === "several" ? counted(calls.length, "call") : null;
}

/** The fate of each operation in compiled code. */
COMPARE_PARTS.push((channel, choose) => {
  const section = element("section", { class: "gw-compiled", hidden: true });
  return {
    element: section,
    update() {
      const models = channel.get("compiled");
      section.hidden = models.length === 0;
      section.replaceChildren(
        element("h2", "gw-table-title", "What became of each operation"),
        ...models.flatMap((model) => [
          element("p", "gw-about", oneLine(model.sentence)),
          operationsTable(model, choose),
        ]),
      );
    },
    signs: () => compiledSigns(channel.get("compiled")),
  };
});

/** A table of every operation's fate in compiled code, in forward order. */
function operationsTable(
  { operations }: CompiledModel,
  select: (place: number) => void,
): HTMLElement {
  const rows = operations.slice(0, MOST_ROWS).map(({ label, where, how, sentence, place }) =>
    tableRow(
      selectLink(oneLine(label), () => select(place)),
      element("td", "", oneLine(where)),
      element("td", how === "unknown" ? "gw-absent" : "", oneLine(sentence)),
    ),
  );
  const columns = ["operation", "where", "in compiled code"];
  return scroller("What became of each operation", [
    table(columns, rows, { class: "gw-table" }),
    andMore(operations.length, rows.length, "operation"),
  ]);
}
