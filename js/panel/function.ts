import { element } from "../dom/element";
import { formatCount } from "../text/number";
import { oneLine } from "../text/shorten";
import type { DetailsModel, OperationModel } from "../wire";
import { briefly } from "./formula";
import { type Opened, section, sentence } from "./sections";
import { lineView } from "./source";

/** The backward of a custom Function, as somebody wrote it. */
export function functionSection({ function: found }: DetailsModel, opened: Opened) {
  if (found === null) return null;
  return section(
    "function",
    oneLine(found.method),
    null,
    opened,
    true,
    found.place && lineView(found.place),
    found.code !== "" && element("code", "gw-code", found.code),
    sentence(found.note),
  );
}

/** What a backward ran, one operation after the other, and what each gave. */
export function operationsSection(
  { operations, operation_count }: DetailsModel,
  opened: Opened,
): HTMLElement | null {
  if (operation_count === 0) return null;
  const rest = operation_count - operations.length;
  const rows = operations.flatMap((operation, i) => {
    const { behind } = operation;
    if (behind === null || behind === operations[i - 1]?.behind) return [row(operation)];
    return [element("li", "gw-dim", `${oneLine(behind.replace(/^.*::/, ""))} ran`), row(operation)];
  });
  if (rest > 0) rows.push(element("li", "gw-dim", `and ${formatCount(rest)} more`));
  return section(
    "operations",
    "What its backward ran",
    formatCount(operation_count),
    opened,
    true,
    element("ul", "gw-rows", ...rows),
  );
}

function row({ called, gave }: OperationModel): HTMLElement {
  const [, name = called] = /^aten\.(.+?)(?:\.default)?$/.exec(called) ?? [];
  return element(
    "li",
    { title: called },
    element("code", "gw-mono", oneLine(name)),
    gave && element("span", "gw-mono gw-dim", briefly(gave)),
  );
}
