import { button, element } from "../dom/element";
import { formatCount } from "../text/number";
import { oneLine } from "../text/shorten";
import type { DetailsModel, OperationModel } from "../wire";
import { type SectionContext, section, sentence } from "./sections";
import { lineView } from "./source";
import { briefly } from "./tensor";

/** The source of a custom Function's backward, with a button that checks it if Python can. */
export function functionSection(
  { id, function: found }: DetailsModel,
  channel: SectionContext["channel"] = null,
): HTMLElement | null {
  if (found === null) return null;
  const checked = channel?.get("_checked");
  return section({ key: "function", title: oneLine(found.method) }, [
    found.place && lineView(found.place),
    found.code !== "" && element("code", "gw-code", found.code),
    sentence(found.note),
    channel &&
      checked !== undefined &&
      button(
        {
          label: "Check its derivatives, and what it does with its grad_output",
          text: "Check",
          class: "gw-button gw-diagnose",
        },
        () => channel.send({ kind: "check", node: id }),
      ),
    checked && checked.node === id
      ? element("p", `gw-note${checked.agrees ? "" : " is-wrong"}`, checked.sentence)
      : null,
  ]);
}

/** The operations that a backward ran, with their results. */
export function operationsSection({
  operations,
  operation_count,
}: DetailsModel): HTMLElement | null {
  if (operation_count === 0) return null;
  const rest = operation_count - operations.length;
  const rows = operations.flatMap((operation, i) => {
    const { behind } = operation;
    if (behind === null || behind === operations[i - 1]?.behind) return [row(operation)];
    return [element("li", "gw-dim", `${oneLine(behind.replace(/^.*::/, ""))} ran`), row(operation)];
  });
  if (rest > 0) rows.push(element("li", "gw-dim", `and ${formatCount(rest)} more`));
  return section(
    { key: "operations", title: "What its backward ran", hint: formatCount(operation_count) },
    element("ul", "gw-rows", rows),
  );
}

function row({ called, gave }: OperationModel): HTMLElement {
  const [, name = called] = /^aten\.(.+?)(?:\.default)?$/.exec(called) ?? [];
  return element("li", { title: called }, [
    element("code", "gw-mono", oneLine(name)),
    gave && element("span", "gw-mono gw-dim", briefly(gave)),
  ]);
}
