import { matchWords } from "../controls/search";
import {
  button,
  element,
  keepingFocus,
  scroller,
  selectLink,
  table,
  tableRow,
  write,
} from "../dom/element";
import { pythonText } from "../panel/facts";
import { andMore } from "../panel/sections";
import { shortDtype } from "../panel/tensor";
import type { Progress } from "../steps/recording";
import { describeState } from "../steps/words";
import { compactNumber, compactValues, fewText } from "../text/gradient";
import { counted } from "../text/number";
import { formatShape, oneLine } from "../text/shorten";
import type {
  DetailsModel,
  LeafCellModel,
  LeafRowModel,
  LeafTableModel,
  TensorSummary,
} from "../wire";
import { COMPARE_PARTS, type CompareChannel, type ComparePart } from "./compare_part";
import type { United } from "./united";

export class CompareTables {
  readonly element: HTMLElement;
  private readonly answer = element("p", { class: "gw-answer", hidden: true });
  private readonly node = createNodeTable();
  private readonly leaves: ReturnType<typeof createLeafTable>;
  private readonly differences: ReturnType<typeof createDifferences>;
  /** The parts of features, whose tables come first. */
  readonly parts: readonly ComparePart[];

  constructor(
    private readonly channel: CompareChannel,
    choose: (place: number) => void,
  ) {
    this.leaves = createLeafTable(choose);
    this.differences = createDifferences(choose);
    this.parts = COMPARE_PARTS.map((create) => create(channel, choose));
    const tables = [this.differences, ...this.parts, this.leaves, this.node];
    this.element = element("div", "gw-tables", [
      this.answer,
      ...tables.map((table) => table.element),
    ]);
  }

  /** Show or hide the tables; returns whether they are visible. */
  toggle(): boolean {
    this.element.hidden = !this.element.hidden;
    return !this.element.hidden;
  }

  show(united: United): void {
    this.differences.update(united);
    this.leaves.element.hidden = united.panes.every(({ graph }) => graph.static);
  }

  showNode(united: United, progress: readonly (Progress | null)[]): void {
    const { channel } = this;
    this.node.update(united, channel.get("selected"), channel.get("details"), progress);
  }

  /** Show the leaves' gradients after `cursor` steps. */
  showLeaves({ panes }: United, cursor: number): void {
    const { channel } = this;
    const total = channel.get("_steps").length;
    const when = channel.get("passes").map(({ run }) => {
      if (run === null || total === 0) return "now";
      return cursor === total ? "after" : `at step ${cursor}`;
    });
    const labels = panes.map(({ label }) => label);
    const table = channel.get("table");
    this.leaves.update(table, labels, when);
    const isOver = when.every((each) => each === "after");
    const words = isOver ? panes.flatMap((pane, p) => missingIn(table, pane, p)) : [];
    this.answer.hidden = words.length === 0;
    write(this.answer, words.join(" · "));
  }

  select(place: number | null): void {
    this.leaves.select(place);
    for (const part of this.parts) part.select?.(place);
  }
}

/** The most leaves that are named in a sentence. */
const MOST_MISSING = 3;

/** The leaves that get no gradient in one graph, but in another one, and what cuts it there: "x gets None in b: detach()". */
export function missingIn(
  { rows }: LeafTableModel,
  { label, graph: { nodes, edges } }: Pick<United["panes"][number], "label" | "graph">,
  pane: number,
): string[] {
  const missing = rows.filter(
    ({ cells }) => cells[pane].now === null && cells.some(({ now }) => now !== null),
  );
  if (missing.length === 0) return [];
  const names = missing.slice(0, MOST_MISSING).map(({ name }) => oneLine(name ?? "unnamed"));
  const isMissing = (id: number) => missing.some(({ name }) => name && nodes[id].name === name);
  const cuts = edges.flatMap(({ kind, source, target }) =>
    kind === "cut" && isMissing(target) ? nodes[source].label : [],
  );
  const rest = missing.length - names.length;
  const which = `${names.join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`;
  const why = cuts.length > 0 ? `: ${[...new Set(cuts)].map(oneLine).join(", ")}` : "";
  return [`${which} ${missing.length > 1 ? "get" : "gets"} None in ${oneLine(label)}${why}`];
}

/** The most differences to list. */
const MOST_ROWS = 50;

/** A list of the nodes that some graphs lack, in the order of the graphs. */
function createDifferences(choose: (place: number) => void) {
  const section = element("section", { class: "gw-differences", hidden: true });
  return {
    element: section,
    update({ graph, members, panes }: United): void {
      const places = members.flatMap((of, place) => (of.includes(null) ? [place] : []));
      section.hidden = places.length === 0;
      const rows = places.slice(0, MOST_ROWS).map((place) => {
        const [name, about] = matchWords(graph.nodes[place]);
        const has = panes.flatMap(({ label }, p) =>
          members[place][p] === null ? [] : oneLine(label),
        );
        return tableRow(
          selectLink(name, () => choose(place)),
          element("td", "gw-dim", about),
          element("td", {}, `${has.length === 1 ? "only in " : "in "}${has.join(", ")}`),
        );
      });
      const more = andMore(places.length, rows.length, "node");
      section.replaceChildren(
        element("h2", "gw-table-title", counted(places.length, "difference")),
        scroller(
          "Nodes that some graphs lack",
          table(["node", "about", "where"], rows, { class: "gw-table" }),
        ),
        ...(more ? [more] : []),
      );
    },
  };
}

/** The most leaves that are all listed at once. */
const MOST_AT_ONCE = 12;

/** A table of all graphs' leaves, side by side. Differing values are bold, and their row has a sign. */
function createLeafTable(select: (place: number) => void) {
  const head = element("thead");
  const body = element("tbody");
  const note = element("p", "gw-small");
  const more = button(
    { label: "Show leaves that are alike", text: "", class: "gw-link", pressed: false },
    () => {
      showsAll = !showsAll;
      fill();
    },
  );
  let showsAll = false;
  const box = scroller("Leaves side by side", element("table", "gw-table", [head, body]));
  let selected: number | null = null;
  let rows: [LeafRowModel, HTMLElement][] = [];
  const mark = () => {
    for (const [{ cells }, row] of rows)
      row.classList.toggle(
        "is-selected",
        selected !== null && cells.some((cell) => cell.node === selected),
      );
  };
  /** Among many rows, those that are alike wait until they are asked for. */
  const fill = () => {
    const different = rows.filter(([, row]) => row.querySelector(".gw-differs"));
    const alike = rows.length - different.length;
    const hides = rows.length > MOST_AT_ONCE && alike > 0;
    more.hidden = !hides;
    more.textContent = showsAll
      ? "Show only what differs"
      : `${counted(alike, "leaf is", "leaves are")} alike: show`;
    more.setAttribute("aria-pressed", String(showsAll));
    const shown = hides && !showsAll ? different : rows;
    box.hidden = shown.length === 0;
    body.replaceChildren(...shown.map(([, row]) => row));
  };
  return {
    element: element("section", "gw-leaves", [
      element("h2", "gw-table-title", "Leaves"),
      box,
      more,
      note,
    ]),
    /** `when` has the texts of the last columns: "now", "at step 2", "after". */
    update(table: LeafTableModel, labels: readonly string[], when: readonly string[]) {
      head.replaceChildren(...headRows(labels, when));
      rows = table.rows.map((row) => [row, leafRow(row, select)]);
      keepingFocus(body, fill);
      const left = table.total - table.rows.length;
      note.hidden = left <= 0;
      note.textContent =
        left > 0
          ? `${table.rows.length} of ${table.total} leaves are shown, those that are not alike in every graph first.`
          : "";
      mark();
    },
    select(place: number | null) {
      selected = place;
      mark();
    },
  };
}

function headRows(labels: readonly string[], when: readonly string[]): HTMLElement[] {
  const own = ["requires_grad", "is_leaf", ".grad before"];
  return [
    element("tr", {}, [
      element("th", { rowspan: 2, scope: "col" }, "leaf"),
      ...labels.map((label) =>
        element("th", { colspan: 4, scope: "colgroup", class: "gw-group-start" }, oneLine(label)),
      ),
    ]),
    element(
      "tr",
      {},
      labels.flatMap((_, p) =>
        [...own, `.grad ${when[p]}`].map((text, i) =>
          element("th", { scope: "col", class: i === 0 ? "gw-group-start" : null }, text),
        ),
      ),
    ),
  ];
}

function leafRow(row: LeafRowModel, select: (place: number) => void): HTMLElement {
  const shown = row.cells.map(cellTexts);
  const there = shown.filter((_, p) => row.cells[p].is_leaf !== null);
  const differs = [0, 1, 2, 3].map((i) => new Set(there.map((texts) => texts[i])).size > 1);
  const place = row.cells.find((cell) => cell.node !== null)?.node ?? null;
  const name = oneLine(row.name ?? "unnamed");
  const choose = () => {
    if (place !== null) select(place);
  };
  const link = selectLink(name, choose, `leaf.${place}`);
  const isOdd = differs.includes(true) || row.cells.some(({ node }) => node === null);
  const wide = { colspan: 4, class: "gw-group-start gw-absent" };
  return element("tr", {}, [
    element("th", { scope: "row" }, [link, isOdd && differsSign()]),
    ...row.cells.flatMap((cell, p) => {
      if (cell.node === null) return [element("td", wide, "not in this graph")];
      if (cell.is_leaf === null) return [element("td", wide, "static: no gradient")];
      return shown[p].map((text, i) =>
        element(
          "td",
          `${i === 0 ? "gw-group-start" : ""}${differs[i] ? " is-different" : ""}`,
          text,
        ),
      );
    }),
  ]);
}

function cellTexts({ requires_grad, is_leaf, before, now }: LeafCellModel): string[] {
  return [
    pythonText(requires_grad),
    pythonText(is_leaf),
    before ? fewText(before) : "None",
    now ? fewText(now) : "None",
  ];
}

/** The sign of a row in which the graphs differ. */
function differsSign(): HTMLElement {
  return element("span", { class: "gw-differs", title: "The graphs differ here" }, "≠");
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
        .map(({ argument, arg_nr }) => argument ?? `input ${arg_nr}`)
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

/** A table of the selected node, a column per graph. Differing rows have a sign; equal facts share one line. */
function createNodeTable() {
  const title = element("h2", "gw-table-title");
  const about = element("p", "gw-about");
  const head = element("thead");
  const body = element("tbody");
  const same = element("dl", "gw-facts");
  const box = scroller(
    "The selected node side by side",
    element("table", "gw-table gw-node-table", [head, body]),
  );
  return {
    element: element("section", "gw-selected", [title, about, same, box]),
    update(
      united: United,
      selected: number | null,
      details: readonly (DetailsModel | null)[],
      progress: readonly (Progress | null)[],
    ) {
      box.hidden = same.hidden = selected === null;
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
        element("tr", {}, [
          element("th", { scope: "col" }),
          ...panes.map((pane) =>
            element("th", { scope: "col", class: "gw-group-start" }, oneLine(pane.label)),
          ),
        ]),
      );
      body.replaceChildren(
        ...rows
          .filter(isInTable)
          .map((row, i, all) => rowView(row, of, i === 0 ? all.length : 0, instead)),
      );
      box.hidden = body.childElementCount === 0;
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
  return element("div", {}, [
    element("dt", {}, name),
    element("dd", {}, texts.find((text) => text !== null) ?? ""),
  ]);
}

/** `height`: the rows that a missing node's cell spans; 0 below the first. `instead`: what is in its place. */
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
  return element("tr", {}, [
    element("th", { scope: "row" }, [name, differs && differsSign()]),
    ...cells,
  ]);
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
