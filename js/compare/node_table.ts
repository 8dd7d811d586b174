import { element, KEEP_KEYS } from "../dom/element";
import { pythonText } from "../panel/saved";
import { shortDtype } from "../panel/tensor";
import type { Progress } from "../steps/recording";
import { describeState } from "../steps/words";
import { compactNumber, compactValues } from "../text/gradient";
import { formatShape } from "../text/shape";
import { oneLine } from "../text/shorten";
import type { DetailsModel, TensorSummary } from "../wire";
import type { United } from "./united";

interface NodeTable {
  element: HTMLElement;
  update(
    united: United,
    selected: number | null,
    details: readonly (DetailsModel | null)[],
    progress: readonly (Progress | null)[],
  ): void;
}

type Fact = [string, (details: DetailsModel) => string | null];

/** The most numbers to write for a tensor; larger ones are summarized by their norm. */
const MOST_NUMBERS = 6;

const FACTS: readonly Fact[] = [
  ["name", (details) => details.name && oneLine(details.name)],
  ["operation", (details) => details.op],
  ["shape", (details) => details.shape && formatShape(details.shape)],
  ["dtype", (details) => details.dtype && shortDtype(details.dtype)],
  ["device", (details) => details.device],
  ["requires_grad", (details) => knownText(details.requires_grad)],
  ["is_leaf", (details) => knownText(details.is_leaf)],
  ["value", (details) => tensorText(details.value)],
  [".grad", (details) => tensorText(details.grad) ?? (details.is_leaf ? "None" : null)],
  ["flowed in", (details) => gradientsText(details.grad_output)],
  ["passed on", (details) => gradientsText(details.grad_input)],
  [
    "without grad",
    (details) =>
      details.no_grad_inputs
        .map(({ argument, input_nr }) => argument ?? `input ${input_nr}`)
        .join(", ") || null,
  ],
];

/** Rows that stay when all graphs agree. */
const GRADIENTS: ReadonlySet<string> = new Set([".grad", "flowed in", "passed on", "backward"]);

interface Row {
  name: string;
  /** One per graph; null for an empty cell. */
  texts: (string | null)[];
  differs: boolean;
}

/**
 * A table of the selected node, one column per graph. Differing rows are bold and have a sign; equal facts share one
 * line.
 */
export function createNodeTable(): NodeTable {
  const title = element("h2", "gw-table-title");
  const about = element("p", "gw-about");
  const head = element("thead");
  const body = element("tbody");
  const same = element("dl", "gw-facts");
  const scroller = element(
    "div",
    {
      class: "gw-table-scroller",
      tabindex: 0,
      role: "group",
      "aria-label": "The selected node side by side",
      ...KEEP_KEYS,
    },
    element("table", "gw-table gw-node-table", head, body),
  );
  return {
    element: element("section", "gw-selected", title, about, same, scroller),
    update(united, selected, details, progress) {
      scroller.hidden = same.hidden = selected === null;
      if (selected === null) {
        title.textContent = "Nothing selected";
        about.textContent =
          "Click a node in any of the graphs to set it beside the same node of the others.";
        return;
      }
      const { graph, members, panes } = united;
      const of = members[selected] ?? [];
      const known = panes.map((_, p) => {
        const found = details[p] ?? null;
        return found !== null && found.id === of[p] ? found : null;
      });
      const waiting = of.some((node, p) => node !== null && known[p] === null);
      title.textContent = oneLine(graph.nodes[selected]?.label ?? "");
      about.textContent = waiting ? "Loading details…" : aboutText(united, selected);
      const instead = (united.slotMembers[united.slot[selected]] ?? []).map((node, p) =>
        node === null || of[p] !== null ? null : oneLine(panes[p].graph.nodes[node].label),
      );
      const rows = rowsOf(known, progress, of);
      const isInTable = ({ name, differs }: Row) =>
        differs || GRADIENTS.has(name) || of.includes(null);
      same.replaceChildren(...rows.filter((row) => !isInTable(row)).map(factView));
      head.replaceChildren(
        element(
          "tr",
          {},
          element("th", { scope: "col" }),
          ...panes.map((pane) =>
            element("th", { scope: "col", class: "gw-group-start" }, oneLine(pane.label)),
          ),
        ),
      );
      body.replaceChildren(
        ...rows
          .filter(isInTable)
          .map((row, i, all) => rowView(row, of, i === 0 ? all.length : 0, instead)),
      );
      scroller.hidden = body.childElementCount === 0;
    },
  };
}

function knownText(value: boolean | null): string | null {
  return value === null ? null : pythonText(value);
}

function aboutText({ members, panes }: United, selected: number): string {
  const of = members[selected];
  const lacking = panes.filter((_, p) => of[p] === null).map(({ label }) => oneLine(label));
  return lacking.length === 0 ? "in every graph" : `not in ${lacking.join(", ")}`;
}

function rowsOf(
  known: readonly (DetailsModel | null)[],
  progress: readonly (Progress | null)[],
  of: readonly (number | null)[],
): Row[] {
  const facts: [string, (string | null)[]][] = FACTS.map(([name, read]) => [
    name,
    known.map((one) => one && read(one)),
  ]);
  facts.push(
    [
      "backward",
      progress.map((one, p) => {
        const node = of[p];
        return one && node !== null ? describeState(one, node) : null;
      }),
    ],
    [
      "why",
      known.map((one) => (one?.grad === null && one.is_leaf !== false ? one.grad_note.grad : null)),
    ],
  );
  return facts
    .filter(([, texts]) => texts.some((text) => text !== null))
    .map(([name, texts]) => {
      const there = texts.filter((_, p) => of[p] !== null);
      return { name, texts, differs: new Set(there).size > 1 };
    });
}

/** A fact that all graphs agree on. */
function factView({ name, texts }: Row): HTMLElement {
  return element(
    "div",
    {},
    element("dt", {}, name),
    element("dd", {}, texts.find((text) => text !== null) ?? ""),
  );
}

/**
 * `height` is the number of rows that a missing node's cell spans, 0 in all rows but the first. `instead` is what the
 * graph has in the node's place.
 */
function rowView(
  { name, texts, differs }: Row,
  of: readonly (number | null)[],
  height: number,
  instead: readonly (string | null)[],
): HTMLElement {
  const cells = texts.flatMap((text, p) => {
    if (of[p] !== null) {
      const kind = differs ? "gw-group-start is-different" : "gw-group-start";
      return [element("td", kind, text ?? "–")];
    }
    const absent = { class: "gw-group-start gw-absent", rowspan: height };
    const stand = instead[p];
    const words =
      stand === null ? "not in this graph" : `not in this graph; in its place: ${stand}`;
    return height > 0 ? [element("td", absent, words)] : [];
  });
  return element(
    "tr",
    {},
    element(
      "th",
      { scope: "row" },
      name,
      differs && element("span", { class: "gw-differs", title: "The graphs differ here" }, "≠"),
    ),
    ...cells,
  );
}

function gradientsText(gradients: readonly (TensorSummary | null)[] | null): string | null {
  if (gradients === null) return null;
  return gradients.map((one) => tensorText(one) ?? "None").join(", ") || null;
}

function tensorText(summary: TensorSummary | null): string | null {
  if (summary === null) return null;
  if (summary.values !== null && summary.numel <= MOST_NUMBERS)
    return compactValues(summary.values);
  const shape = formatShape(summary.shape);
  return summary.norm === null ? shape : `${shape}, norm ${compactNumber(summary.norm)}`;
}
