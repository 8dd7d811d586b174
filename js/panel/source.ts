import { element } from "../dom/element";
import { oneLine } from "../text/shorten";
import type { CutModel, DetailsModel, SourceModel } from "../wire";
import { nodeLink } from "./links";
import { section } from "./sections";

/** The program line that made a node, with its function. */
export function sourceSection(details: DetailsModel): HTMLElement | null {
  const { source, call, inplace } = details;
  if (source === null && call === null) return null;
  return element("div", { class: "gw-source", "data-section": "source" }, [
    source !== null && lineView(source),
    (call !== null || inplace) &&
      element("div", "gw-source-call", [
        call !== null && element("span", "gw-dim", "called "),
        call !== null && element("code", "gw-mono", oneLine(call)),
        inplace &&
          element(
            "span",
            {
              class: "gw-chip gw-chip-inplace",
              title: "It changed one of its operands instead of making a new tensor",
            },
            "in place",
          ),
      ]),
  ]);
}

/** A line of the user's program: its place and its text. */
export function lineView({ file, line, text, function: name }: SourceModel): HTMLElement {
  const place = `${lastParts(file)}:${line}`;
  const within = name === "<module>" ? "" : ` in ${name}`;
  return element("div", { class: "gw-source-line", title: `${file}:${line}${within}` }, [
    element("span", "gw-source-place", place),
    text !== "" && element("code", "gw-source-text", text),
  ]);
}

export function isSameLine(a: SourceModel | null, b: SourceModel | null): boolean {
  return a !== null && b !== null && a.file === b.file && a.line === b.line;
}

/** The file and its folder, since a whole path would fill the panel. */
function lastParts(file: string): string {
  const parts = file.split(/[\\/]/);
  return oneLine(parts.slice(-2).join("/"));
}

/** The places where the gradient of an operand was cut. */
export function cutsSection(cuts: readonly CutModel[]): HTMLElement | null {
  if (cuts.length === 0) return null;
  return section(
    { key: "cuts", title: "Cut off from", hint: cuts.length > 1 ? String(cuts.length) : null },
    cuts.map(({ how, node, label, line, region }, i) =>
      element("div", "gw-item", [
        element("div", "gw-item-head", [
          nodeLink(node, label, `cut.${i}`),
          element("span", "gw-chip gw-chip-cut", how === "alias" ? "inferred" : how),
        ]),
        line !== null && lineView(line),
        region !== null && element("div", "gw-dim", "Gradients were switched off at"),
        region !== null && lineView(region),
      ]),
    ),
  );
}
