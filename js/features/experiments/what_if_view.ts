import {
  button,
  element,
  focusable,
  KEEP_KEYS,
  linkButton,
  scroller,
  selectLink,
  table,
  tableRow,
  write,
} from "../../dom/element";
import { ICONS } from "../../dom/icons";
import { andMore } from "../../panel/sections";
import { type EdgeId, edgeLabel } from "../../scene/edge_id";
import { isAutograd } from "../../scene/shown_graph";
import { boardNumber } from "../../text/gradient";
import { counted } from "../../text/number";
import { oneLine } from "../../text/shorten";
import type {
  EditedModel,
  EditModel,
  GraphModel,
  LeafChangeModel,
  ShareModel,
  WhatIfModel,
} from "../../wire";
import {
  changed,
  editAt,
  nameThatIsOn,
  readFactor,
  readNumbers,
  setEdit,
  setFactor,
  toggleCut,
} from "./edits";
import { changeText, editText, gradText, numbersText, percentText, shareText } from "./words";

interface WhatIfActions {
  edit(edits: EditModel[]): void;
  /** Highlight the path of a share of the selected node's gradient, or none. */
  light(share: ShareModel | null): void;
  goTo(node: number): void;
}

interface WhatIfShown {
  graph: GraphModel;
  /** The editable edges: the selected one, or those into the selected node. */
  offered: readonly EdgeId[];
  edits: readonly EditModel[];
  answer: WhatIfModel | null;
  shares: readonly ShareModel[];
  lit: ShareModel | null;
  /** Why no gradient can be changed; null if one can. */
  blocked: string | null;
}

const MOST_OFFERED = 50;

/** Edges with cut and scale buttons, the list of edits, the leaves before and after, and the change of the program. */
export function whatIfView(shown: WhatIfShown, actions: WhatIfActions): HTMLElement {
  const { edits, offered, answer } = shown;
  return element("section", { class: "gw-what-if", "aria-label": "What if" }, [
    ...shown.shares.map((share, i) => shareRow(share, i, shown, actions)),
    element("h3", "gw-what-if-title", "What if"),
    shown.blocked !== null && element("p", "gw-note", shown.blocked),
    offered.length > 0 &&
      element(
        "ul",
        "gw-edge-list",
        offered.slice(0, MOST_OFFERED).map((edge, i) => edgeRow(edge, i, shown, actions)),
      ),
    andMore(offered.length, MOST_OFFERED, "edge"),
    offered.length === 0 &&
      edits.length === 0 &&
      element("p", "gw-small", "Click a line in the picture to cut it."),
    edits.length > 0 && editList(shown, actions),
    edits.length > 0 && !answer && element("p", "gw-small", "Waiting for Python…"),
    answer?.failed && shown.blocked === null && element("p", "gw-note", answer.failed),
    answer && !answer.failed && leafTable(answer, edits, actions),
    answer?.code && codeBlock(answer.code),
    answer && !answer.failed && notes(answer, shown.graph.nodes.filter(isAutograd).length),
  ]);
}

function shareRow(
  share: ShareModel,
  i: number,
  { lit }: WhatIfShown,
  actions: WhatIfActions,
): HTMLElement {
  const isLit = lit?.consumer === share.consumer && lit.arg_nr === share.arg_nr;
  const row = button(
    {
      label: `${shareText(share)} Show the way in the picture`,
      title: "Show the way in the picture",
      text: shareText(share),
      class: "gw-share",
      pressed: isLit,
      focus: `share.${i}`,
    },
    () => actions.light(isLit ? null : share),
  );
  row.style.setProperty("--gw-share", `${Math.min(1, Math.abs(share.share)) * 100}%`);
  return row;
}

/** Scissors, a factor and an undo for one edge. */
export function edgeTools(
  edge: EdgeId,
  { edits, graph, blocked }: Pick<WhatIfShown, "edits" | "graph" | "blocked">,
  { edit }: Pick<WhatIfActions, "edit">,
  key: string,
): HTMLElement {
  const now = editAt(edits, edge);
  const label = oneLine(edgeLabel(graph, edge));
  const cut = button(
    {
      label: `Cut ${label}`,
      title: "No gradient flows here, as after detach()",
      icon: ICONS.scissors,
      pressed: now?.kind === "cut",
      focus: `${key}.cut`,
    },
    () => edit(toggleCut(edits, edge)),
  );
  const factor = field({
    words: now?.kind === "scale" && typeof now.value === "number" ? boardNumber(now.value) : "",
    hint: "k",
    label: `Factor of the gradient along ${label}`,
    title: "Multiply the gradient that flows here: 0.5, 1/3, −1",
    read: readFactor,
    take: (value) => {
      if (value !== null || now?.kind === "scale") edit(setFactor(edits, edge, value));
    },
  });
  const instead = field({
    words: now?.kind === "replace" ? numbersText(now.value) : "",
    hint: "g",
    label: `What flows along ${label} instead of the gradient`,
    title: "Replace the gradient that flows here: one number, or one for each, as 1, 0, −2",
    read: readNumbers,
    take: (value) => {
      if (value !== null) edit(setEdit(edits, edge, { kind: "replace", value }));
      else if (now?.kind === "replace") edit(setEdit(edits, edge, null));
    },
  });
  const undo = button(
    { label: `Undo the edit of ${label}`, title: "Undo", icon: UNDO, focus: `${key}.undo` },
    () => edit(setEdit(edits, edge, null)),
  );
  undo.disabled = now === null;
  if (blocked !== null)
    for (const tool of [cut, factor, instead]) {
      tool.toggleAttribute("disabled", true);
      tool.title = blocked;
    }
  factor.dataset.focus = `${key}.factor`;
  instead.dataset.focus = `${key}.instead`;
  return element("span", { class: "gw-edge-tools", role: "group", "aria-label": `Edit ${label}` }, [
    cut,
    element("span", { class: "gw-times", "aria-hidden": "true" }, "×"),
    factor,
    element("span", { class: "gw-times", "aria-hidden": "true" }, "="),
    instead,
    undo,
  ]);
}

/** A field for numbers. `take` receives each valid number, and null for an empty field. */
function field<V>(options: {
  words: string;
  hint: string;
  label: string;
  title: string;
  read(text: string): V | null;
  take(value: V | null): void;
}): HTMLInputElement {
  const made = element("input", {
    class: "gw-factor",
    type: "text",
    inputmode: "text",
    size: 4,
    placeholder: options.hint,
    value: options.words,
    "aria-label": options.label,
    title: options.title,
    ...KEEP_KEYS,
  });
  made.addEventListener("change", () => {
    const value = options.read(made.value);
    const isWrong = value === null && made.value.trim() !== "";
    made.setAttribute("aria-invalid", String(isWrong));
    if (!isWrong) options.take(value);
  });
  return made;
}

const UNDO = "M6 3L2.500 6.500L6 10M2.500 6.500h7a4 4 0 0 1 0 8H7";

function edgeRow(edge: EdgeId, i: number, shown: WhatIfShown, actions: WhatIfActions): HTMLElement {
  const label = edgeLabel(shown.graph, edge);
  return element("li", {}, [
    element("span", { class: "gw-edge-name", title: oneLine(label) }, oneLine(label)),
    edgeTools(edge, shown, actions, `edge.${i}`),
  ]);
}

function editList({ edits, answer, graph }: WhatIfShown, { edit }: WhatIfActions): HTMLElement {
  const all = linkButton("undo all", () => edit([]), {
    label: "Undo all edits",
    focus: "edits.all",
  });
  return element("div", "gw-edits", [
    element("p", "gw-edits-head", [counted(edits.length, "edit"), edits.length > 1 && all]),
    element(
      "ol",
      "gw-edit-list",
      edits.map((one, i) => {
        const effect = answer?.edits[i] ?? null;
        const label =
          effect?.label ??
          (typeof one.edge === "string" ? one.edge : edgeLabel(graph, [one.edge[0], one.edge[1]]));
        return editItem(one, i, { edits, effect, label: oneLine(label), edit });
      }),
    ),
  ]);
}

/** An edit of the list: a toggle, its effect, its name, and undo. */
function editItem(
  one: EditModel,
  i: number,
  shown: {
    edits: readonly EditModel[];
    effect: EditedModel | null;
    label: string;
    edit: WhatIfActions["edit"];
  },
): HTMLElement {
  const { edits, effect, label, edit } = shown;
  const what = `${editText(one)} ${label}`;
  const on = element("input", {
    type: "checkbox",
    "data-focus": `edits.${i}.on`,
    checked: !one.off,
    "aria-label": `On: ${what}`,
    title: one.off
      ? "Switch on: it is made with all others that are on"
      : "Switch off: it stays in the list, and under its name in the comparison",
    ...KEEP_KEYS,
  });
  on.addEventListener("change", () => edit(changed(edits, i, { off: !on.checked })));
  const name = element("input", {
    class: "gw-edit-name",
    "data-focus": `edits.${i}.name`,
    type: "text",
    placeholder: "name it to compare",
    value: oneLine(one.name ?? ""),
    "aria-label": `Name of ${what}`,
    title: "Edits of one name are one. With two names, what each does alone is in the table",
    ...KEEP_KEYS,
  });
  name.addEventListener("change", () =>
    edit(changed(edits, i, { name: name.value.trim() || null })),
  );
  const undo = button(
    { label: `Undo: ${what}`, title: "Undo", icon: UNDO, focus: `edits.${i}` },
    () => edit(edits.filter((_, k) => k !== i)),
  );
  const flows =
    effect &&
    !one.off &&
    `${gradText(effect.was)} → ${one.kind === "cut" ? "nothing" : gradText(effect.now)}`;
  return element("li", { class: one.off ? "is-off" : null }, [
    on,
    element("b", {}, editText(one)),
    element("span", { class: "gw-edge-name", title: label }, label),
    undo,
    element("span", "gw-edit-about", [
      name,
      element("span", { class: "gw-dim", title: flows || null }, one.off ? "off" : flows),
    ]),
  ]);
}

function leafTable(
  answer: WhatIfModel,
  edits: readonly EditModel[],
  actions: WhatIfActions,
): HTMLElement {
  const { leaves, leaf_count, names } = answer;
  return scroller("Leaves", [
    names.length > 0
      ? comparison(answer, edits, actions)
      : table(
          ["leaf", "before", "after", "change"],
          leaves.map((leaf) => leafRow(leaf, actions)),
          "gw-table gw-leaf-changes",
        ),
    andMore(leaf_count, leaves.length, "leaf", "leaves"),
  ]);
}

/** The leaves with each name's edits alone, and with all active edits if that differs. */
function comparison(
  { leaves, names }: WhatIfModel,
  edits: readonly EditModel[],
  actions: WhatIfActions,
): HTMLElement {
  const isOn = nameThatIsOn(edits);
  const on = edits.filter(({ off }) => !off).length;
  const showsAll = isOn === null && on > 0;
  const found = table(
    ["leaf", "before", ...names.map(oneLine), ...(showsAll ? ["all on"] : [])],
    leaves.map((leaf) =>
      tableRow(
        leafLink(leaf, actions),
        element("td", {}, gradText(leaf.before)),
        ...leaf.named.map(({ after, changed }) =>
          element("td", { class: changed ? "is-changed" : null }, gradText(after)),
        ),
        showsAll &&
          element("td", { class: leaf.difference ? "is-changed" : null }, gradText(leaf.after)),
      ),
    ),
    "gw-table gw-leaf-changes is-compared",
  );
  const [, , ...columns] = found.querySelectorAll<HTMLElement>("thead th");
  for (const [i, column] of columns.entries()) {
    const isShown = i === names.length || names[i] === isOn;
    column.title = isShown ? "Shown in the picture" : oneLine(names[i]);
    if (isShown) column.setAttribute("aria-current", "true");
  }
  return found;
}

function leafLink(leaf: LeafChangeModel, { goTo }: WhatIfActions): HTMLElement {
  const name = oneLine(leaf.name ?? `node ${leaf.node}`);
  return selectLink(name, () => goTo(leaf.node), `leaf.${leaf.node}`);
}

function leafRow(leaf: LeafChangeModel, actions: WhatIfActions): HTMLElement {
  const percent = percentText(leaf);
  return element("tr", { class: leaf.difference ? "is-changed" : null }, [
    element("th", { scope: "row" }, leafLink(leaf, actions)),
    element("td", {}, gradText(leaf.before)),
    element("td", {}, gradText(leaf.after)),
    element("td", { title: percent }, changeText(leaf)),
  ]);
}

function codeBlock(code: string): HTMLElement {
  const say = (words: string) => () => write(copy, words);
  const copy: HTMLElement = linkButton(
    "copy",
    () => navigator.clipboard?.writeText(code).then(say("copied"), say("select it and copy")),
    { label: "Copy the change of the program", focus: "code.copy" },
  );
  return element("div", "gw-real", [
    element("p", "gw-edits-head", ["To do it for real", copy]),
    element("pre", focusable("gw-code", "Python"), code.trimEnd()),
  ]);
}

function notes(answer: WhatIfModel, total: number): HTMLElement {
  const ran =
    `${answer.ran} of ${counted(total, "node")} ran again below the edits. ` +
    "No forward pass, no hook, and no .grad of yours changed.";
  return element(
    "div",
    "gw-small",
    [ran, ...answer.notes].map((text) => element("p", "gw-small", text)),
  );
}
