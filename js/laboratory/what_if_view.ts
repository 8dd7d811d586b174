import { button, element, KEEP_KEYS, table } from "../dom/element";
import { ICONS } from "../dom/icons";
import { isAutograd } from "../scene/shown_graph";
import { boardNumber } from "../text/gradient";
import { counted } from "../text/number";
import { oneLine } from "../text/shorten";
import type { EditModel, LeafChangeModel, ShareModel, WhatIfModel } from "../wire";
import {
  type EdgeId,
  type Edges,
  editAt,
  readFactor,
  setFactor,
  toggleCut,
  without,
} from "./edits";
import { changeText, gradText, percentText, shareText } from "./words";

/** What the reader does in it. */
interface WhatIfActions {
  edit(edits: EditModel[]): void;
  /** Lights the way of a share of the selected node's gradient up, or no more. */
  light(share: ShareModel | null): void;
  goTo(node: number): void;
}

/** What there is to show. */
interface WhatIfShown {
  edges: Edges;
  /** Those that can be edited here: the selected one, or those into the selected node. */
  offered: readonly EdgeId[];
  edits: readonly EditModel[];
  answer: WhatIfModel | null;
  shares: readonly ShareModel[];
  lit: ShareModel | null;
}

const MOST_OFFERED = 50;

/** Edges with scissors and factors, the list of edits, the leaves before and after, and the change of the program. */
export function whatIfView(shown: WhatIfShown, actions: WhatIfActions): HTMLElement {
  const { edits, offered, answer } = shown;
  const rest = offered.length - MOST_OFFERED;
  return element(
    "section",
    { class: "gw-what-if", "aria-label": "What if" },
    ...shown.shares.map((share, i) => shareRow(share, i, shown, actions)),
    element("h3", "gw-what-if-title", "What if"),
    offered.length > 0 &&
      element(
        "ul",
        "gw-edge-list",
        ...offered.slice(0, MOST_OFFERED).map((edge, i) => edgeRow(edge, i, shown, actions)),
      ),
    rest > 0 && element("p", "gw-small", `and ${counted(rest, "more edge")}`),
    offered.length === 0 &&
      edits.length === 0 &&
      element("p", "gw-small", "Click a line in the picture to cut it."),
    edits.length > 0 && editList(shown, actions),
    edits.length > 0 && !answer && element("p", "gw-small", "Waiting for Python…"),
    answer?.failed && element("p", "gw-note", answer.failed),
    answer && !answer.failed && leafTable(answer, actions),
    answer?.code && codeBlock(answer.code),
    answer && !answer.failed && notes(answer, shown.edges.graph.nodes.filter(isAutograd).length),
  );
}

function shareRow(
  share: ShareModel,
  i: number,
  { lit }: WhatIfShown,
  actions: WhatIfActions,
): HTMLElement {
  const isLit = lit?.consumer === share.consumer && lit.input_nr === share.input_nr;
  const row = button(
    {
      label: `${shareText(share)} Show the way in the picture`,
      title: "Show the way in the picture",
      text: shareText(share),
      class: "gw-share",
      pressed: isLit,
    },
    () => actions.light(isLit ? null : share),
  );
  row.dataset.focus = `share.${i}`;
  row.style.setProperty("--gw-share", `${Math.min(1, Math.abs(share.share)) * 100}%`);
  return row;
}

/** Scissors, a factor and an undo for one edge. */
export function edgeTools(
  edge: EdgeId,
  { edits, edges }: Pick<WhatIfShown, "edits" | "edges">,
  { edit }: Pick<WhatIfActions, "edit">,
  key: string,
): HTMLElement {
  const now = editAt(edits, edge);
  const label = oneLine(edges.label(edge));
  const cut = button(
    {
      label: `Cut ${label}`,
      title: "No gradient flows here, as after detach()",
      icon: ICONS.scissors,
      pressed: now?.kind === "cut",
    },
    () => edit(toggleCut(edits, edge)),
  );
  const factor = element("input", {
    class: "gw-factor",
    type: "text",
    inputmode: "decimal",
    size: 4,
    placeholder: "k",
    value: now?.kind === "scale" && typeof now.value === "number" ? boardNumber(now.value) : "",
    "aria-label": `Factor of the gradient along ${label}`,
    title: "Multiply the gradient that flows here: 0.5, 1/3, −1",
    ...KEEP_KEYS,
  });
  const take = () => {
    const value = readFactor(factor.value);
    const isWrong = value === null && factor.value.trim() !== "";
    factor.setAttribute("aria-invalid", String(isWrong));
    if (isWrong) return;
    if (value === null && now?.kind !== "scale") return;
    edit(setFactor(edits, edge, value));
  };
  factor.addEventListener("change", take);
  const undo = button({ label: `Undo the edit of ${label}`, title: "Undo", icon: UNDO }, () =>
    edit(without(edits, edge)),
  );
  undo.disabled = now === null;
  cut.dataset.focus = `${key}.cut`;
  factor.dataset.focus = `${key}.factor`;
  undo.dataset.focus = `${key}.undo`;
  return element(
    "span",
    { class: "gw-edge-tools", role: "group", "aria-label": `Edit ${label}` },
    cut,
    element("span", "gw-times", "×"),
    factor,
    undo,
  );
}

const UNDO = "M6 3L2.500 6.500L6 10M2.500 6.500h7a4 4 0 0 1 0 8H7";

function edgeRow(edge: EdgeId, i: number, shown: WhatIfShown, actions: WhatIfActions): HTMLElement {
  const label = shown.edges.label(edge);
  return element(
    "li",
    {},
    element("span", { class: "gw-edge-name", title: oneLine(label) }, oneLine(label)),
    edgeTools(edge, shown, actions, `edge.${i}`),
  );
}

function editList({ edits, answer, edges }: WhatIfShown, { edit }: WhatIfActions): HTMLElement {
  const all = button({ label: "Undo all edits", text: "undo all", class: "gw-link" }, () =>
    edit([]),
  );
  all.dataset.focus = "edits.all";
  return element(
    "div",
    "gw-edits",
    element("p", "gw-edits-head", counted(edits.length, "edit"), edits.length > 1 && all),
    element(
      "ol",
      "gw-edit-list",
      ...edits.map((one, i) => {
        const told = answer?.edits[i];
        const label =
          told?.label ??
          (typeof one.edge === "string" ? one.edge : edges.label([one.edge[0], one.edge[1]]));
        const undo = button(
          { label: `Undo: ${doneTo(one)} ${oneLine(label)}`, title: "Undo", icon: UNDO },
          () => edit(edits.filter((_, k) => k !== i)),
        );
        undo.dataset.focus = `edits.${i}`;
        return element(
          "li",
          {},
          element("b", {}, doneTo(one)),
          element("span", "gw-edge-name", oneLine(label)),
          told && element("span", "gw-dim", `${gradText(told.was)} → ${nowText(one, told.now)}`),
          undo,
        );
      }),
    ),
  );
}

function nowText(edit: EditModel, now: Parameters<typeof gradText>[0]): string {
  return edit.kind === "cut" ? "nothing" : gradText(now);
}

function doneTo({ kind, value }: EditModel): string {
  if (kind === "scale") return `× ${typeof value === "number" ? boardNumber(value) : "k"}`;
  return kind === "cut" ? "cut" : "replaced";
}

function leafTable({ leaves, leaf_count }: WhatIfModel, actions: WhatIfActions): HTMLElement {
  const rest = leaf_count - leaves.length;
  return element(
    "div",
    {
      class: "gw-table-scroller",
      tabindex: 0,
      role: "group",
      "aria-label": "Leaves",
      ...KEEP_KEYS,
    },
    table(
      ["leaf", "before", "after", "change"],
      leaves.map((leaf) => leafRow(leaf, actions)),
      "gw-table gw-leaf-changes",
    ),
    rest > 0 && element("p", "gw-small", `and ${counted(rest, "more leaf", "more leaves")}`),
  );
}

function leafRow(leaf: LeafChangeModel, { goTo }: WhatIfActions): HTMLElement {
  const name = oneLine(leaf.name ?? `node ${leaf.node}`);
  const link = button({ label: `Select ${name}`, text: name, class: "gw-link" }, () =>
    goTo(leaf.node),
  );
  link.dataset.focus = `leaf.${leaf.node}`;
  const percent = percentText(leaf);
  return element(
    "tr",
    { class: leaf.difference ? "is-changed" : null },
    element("th", { scope: "row" }, link),
    element("td", {}, gradText(leaf.before)),
    element("td", {}, gradText(leaf.after)),
    element("td", { title: percent }, changeText(leaf)),
  );
}

function codeBlock(code: string): HTMLElement {
  const copy = button(
    { label: "Copy the change of the program", text: "copy", class: "gw-link" },
    () => {
      navigator.clipboard?.writeText(code).then(
        () => {
          copy.textContent = "copied";
        },
        () => {
          copy.textContent = "select it and copy";
        },
      );
    },
  );
  copy.dataset.focus = "code.copy";
  return element(
    "div",
    "gw-real",
    element("p", "gw-edits-head", "To do it for real", copy),
    element(
      "pre",
      { class: "gw-code", tabindex: 0, role: "group", "aria-label": "Python", ...KEEP_KEYS },
      code.trimEnd(),
    ),
  );
}

function notes(answer: WhatIfModel, total: number): HTMLElement {
  const ran =
    `${answer.ran} of ${counted(total, "node")} ran again below the edits. ` +
    "No forward pass, no hook, and no .grad of yours changed.";
  return element(
    "div",
    "gw-small",
    ...[ran, ...answer.notes].map((text) => element("p", "gw-small", text)),
  );
}
