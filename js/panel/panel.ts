import { button, element, focusable, focusIn, keepingFocus, linkButton } from "../dom/element";
import { ICONS } from "../dom/icons";
import { groupTitle } from "../scene/box_words";
import { kindOfGroup } from "../scene/module_class";
import { autogradSize, graphName, isAutograd, leafCount } from "../scene/shown_graph";
import type { Progress } from "../steps/recording";
import { counted } from "../text/number";
import { oneLine } from "../text/shorten";
import type { DetailsModel, GraphModel } from "../wire";
import { cells, stateBadge } from "./cells";
import { chainSection } from "./chain";
import { contributionsSection } from "./contributions";
import { facts, outputsSection, savedSection } from "./facts";
import { formulaSection, type Locals } from "./formula";
import { functionSection, operationsSection } from "./function";
import { flowSections, tensorSection, whyChanged, whyNone } from "./gradients";
import { consumerRows, inputRows, moreInputs } from "./links";
import { moduleView, type SelectedModule } from "./module";
import { failedSection, PANEL_SECTIONS, type SectionContext, section, sentence } from "./sections";
import { cutsSection, isSameLine, sourceSection } from "./source";
import { tensorView } from "./tensor";

interface PanelEvents {
  goTo(id: number): void;
  goToModule(path: string): void;
  close(): void;
}

/** A part of the panel that a feature fills. */
export interface PanelPart {
  readonly element: HTMLElement;
  /** Whether it has content without a selection, and the panel's title then. */
  readonly isOpen: boolean;
  readonly title: string;
}

/** After this time without an answer the panel says so. */
const PATIENCE_MS = 4000;

/** The details panel. It never shows one node's details under another node's name. */
export class Panel {
  readonly element: HTMLElement;
  private readonly body = element(
    "div",
    focusable("gw-panel-body", "Details of the selected node"),
  );
  /** Fixed while the body scrolls. */
  private readonly bar = element("div", "gw-chips");
  /** The sections that the reader opened or closed, by their keys. */
  private readonly opened = new Map<string, boolean>();
  /** The shown node or module. */
  private shown: number | string | null = null;
  private module: SelectedModule | null = null;
  private timer = 0;

  constructor(
    readonly events: PanelEvents,
    /** Shown without a selection, below the graph's size. */
    private readonly help: HTMLElement = element("div"),
    /** Parts below a node's gradient, or alone. */
    private readonly parts: readonly PanelPart[] = [],
    /** What sections of features read and set; null in a panel without a widget. */
    private readonly channel: SectionContext["channel"] = null,
  ) {
    const close = button(
      { label: "Close the details panel", icon: ICONS.close, class: "gw-button gw-panel-close" },
      events.close,
    );
    this.element = element(
      "div", // no landmark: a notebook may have many
      { class: "gw-panel", role: "group", "aria-label": "Details" },
      [element("div", "gw-panel-bar", [this.bar, close]), this.body],
    );
    this.body.addEventListener("click", ({ target }) => {
      const link = (target as Element).closest<HTMLElement>("[data-goto], [data-module]");
      if (link?.dataset.goto) events.goTo(Number(link.dataset.goto));
      else if (link?.dataset.module) events.goToModule(link.dataset.module);
    });
    const noteOpened = ({ target }: Event) => {
      const { dataset, open } = target as HTMLDetailsElement;
      if (dataset.section) this.opened.set(dataset.section, open);
    };
    this.body.addEventListener("toggle", noteOpened, true);
  }

  /** Show the selected node's details, a note that they are coming, or a summary of the graph. */
  update(
    graph: GraphModel,
    selected: number | null,
    details: DetailsModel | null,
    progress: Progress | null = null,
    module: SelectedModule | null = null,
  ): void {
    window.clearTimeout(this.timer);
    this.body.setAttribute("aria-busy", "false");
    if (module && module === this.module) return;
    this.module = module;
    if (module) {
      const chip = element("span", "gw-chip", kindOfGroup(module.paths[0]));
      this.bar.replaceChildren(chip);
      this.fill(module.paths.join(), moduleView(graph, module));
      return;
    }
    const alone = this.parts.find(({ isOpen }) => isOpen);
    if (selected === null && alone) {
      this.bar.replaceChildren(element("span", "gw-node-number", alone.title));
      this.fill(alone.title, [alone.element]);
      return;
    }
    this.bar.replaceChildren(
      ...(selected === null
        ? [element("span", "gw-node-number", "Legend and keys")]
        : [...chips(graph, selected), stateBadge(progress, selected)].filter(
            (one) => one !== null,
          )),
    );
    if (selected === null) this.fill(null, [graphSummary(graph), this.help]);
    else if (details?.id === selected)
      this.fill(selected, this.detailsView(graph, details, progress));
    else {
      const waiting = element("p", "gw-loading", "Loading details…");
      this.body.setAttribute("aria-busy", "true");
      this.fill(selected, [
        heading(graph, selected),
        isAutograd(graph.nodes[selected]) ? cells(graph.nodes[selected], null, progress) : null,
        waiting,
      ]);
      this.timer = window.setTimeout(() => {
        waiting.textContent =
          "Still waiting for Python. The kernel may be busy running a cell, or gone; the details appear when it answers.";
      }, PATIENCE_MS);
    }
  }

  focus(): void {
    this.body.focus({ preventScroll: true });
  }

  destroy(): void {
    window.clearTimeout(this.timer);
  }

  private detailsView(
    graph: GraphModel,
    details: DetailsModel,
    progress: Progress | null,
  ): (Node | null)[] {
    const { channel } = this;
    if (graph.static || !isAutograd(details)) return quietView(graph, details);
    const of = (part: keyof DetailsModel, title: string) => failedSection(details, part, title);
    return [
      heading(graph, details.id, details.name, details.module),
      cells(graph.nodes[details.id], details, progress),
      whyChanged(details),
      sentence(details.checkpoint),
      whyNone(details, progress),
      contributionsSection(details) ?? of("contributions", "How the gradient adds up"),
      ...this.parts.map((part) => part.element),
      ...PANEL_SECTIONS.map((added) => added(details, { graph, channel })),
      of("formula", "Derivative") ?? formulaSection(details, localsOf(graph, details.id, progress)),
      functionSection(details, channel),
      operationsSection(details),
      chainSection(details.chain, graph) ?? of("chain", "Chain rule"),
      of("explained", "Why"),
      sourceSection(details),
      tensorSection(details),
      ...flowSections(details),
      of("saved", "Saved for backward") ??
        (details.kind === "op" || details.saved.length > 0
          ? savedSection(details.saved, details.saved_count)
          : null),
      inputsSection(details),
      consumersSection(details),
      aboutSection(details),
    ];
  }

  /** Replace the contents; for the same node, scroll position and focus stay. */
  private fill(id: number | string | null, children: (Node | null)[]): void {
    const { body } = this;
    const same = this.shown === id;
    this.shown = id;
    const scrolls = new Map<string, [number, number]>();
    for (const part of body.querySelectorAll<HTMLElement>("[data-scroll]")) {
      scrolls.set(part.dataset.scroll ?? "", [part.scrollLeft, part.scrollTop]);
    }
    const top = body.scrollTop;
    const replace = () => {
      // A lost focus goes to the page, which would take the next key as a command.
      if (focusIn(body)) this.focus();
      body.replaceChildren(...children.filter((child) => child !== null));
      for (const part of body.querySelectorAll<HTMLDetailsElement>("details[data-section]"))
        part.open = this.opened.get(part.dataset.section ?? "") ?? part.open;
      body.scrollTop = same ? top : 0;
    };
    if (!same) {
      replace();
      return;
    }
    keepingFocus(body, replace);
    for (const part of body.querySelectorAll<HTMLElement>("[data-scroll]"))
      [part.scrollLeft, part.scrollTop] = scrolls.get(part.dataset.scroll ?? "") ?? [0, 0];
  }
}

/** A node's incoming gradient and local derivatives, if they are single numbers and the node has run. */
function localsOf(graph: GraphModel, node: number, progress: Progress | null): Locals {
  const found = new Map<number, readonly [number, number]>();
  if (!progress || progress.recording.step[node] > progress.cursor) return found;
  for (const i of progress.recording.passed.get(node) ?? []) {
    const edge = progress.recording.run?.edges[i] ?? 0;
    const local = progress.recording.locals.get(edge);
    const nr = graph.edges[edge].arg_nr;
    if (local && nr !== null) found.set(nr, local);
  }
  return found;
}

/** The details of a constant, a cut or an outside tensor, and of a static graph's node. */
function quietView(graph: GraphModel, details: DetailsModel): (Node | null)[] {
  return [
    heading(graph, details.id, details.name, details.module),
    element("p", "gw-about", details.about),
    details.forward === null
      ? null
      : element("code", { class: "gw-forward", title: "The forward operation" }, details.forward),
    details.cuts.some(({ line }) => isSameLine(line, details.source))
      ? null
      : sourceSection(details),
    valueSection(details),
    cutsSection(details.cuts),
    facts(details),
    outputsSection(details.outputs, details.output_count),
    graph.static && isAutograd(details) ? noGradient(details) : null,
    inputsSection(details),
    consumersSection(details),
  ];
}

/** The numbers; for a call their source, or why they are unknown. */
function valueSection(details: DetailsModel): HTMLElement | null {
  const { value, value_note, kind } = details;
  const paragraph = kind !== "call" ? null : sentence(value ? value.origin : value_note);
  if (!value && !paragraph) return null;
  const view = value && tensorView(value, "value");
  return section({ key: "value", title: "Value", hint: value ? null : "not known" }, [
    view,
    paragraph,
  ]);
}

/** Why a static graph has no gradients. */
function noGradient({ grad_note }: DetailsModel): HTMLElement {
  return section({ key: "grad", title: "Gradients", hint: "None" }, sentence(grad_note.grad));
}

function inputsSection(details: DetailsModel): HTMLElement | null {
  const { inputs, no_grad_inputs, constants, input_count } = details;
  if (input_count === 0) return null;
  const rows = inputRows(inputs, no_grad_inputs, constants);
  const count = String(input_count);
  return section({ key: "inputs", title: "Inputs", hint: count, open: false }, [
    rows,
    moreInputs(details),
  ]);
}

function consumersSection({ consumers, consumer_count, kind }: DetailsModel): HTMLElement | null {
  if (consumers.length === 0) return null;
  const title = kind === "outside" ? "Values taken by" : "Used by";
  const rows = consumerRows(consumers, consumer_count);
  return section({ key: "consumers", title, hint: String(consumer_count), open: false }, rows);
}

function chips(graph: GraphModel, id: number): HTMLElement[] {
  const kind = graph.nodes[id]?.kind ?? "op";
  const found = [
    element(
      "span",
      `gw-chip gw-chip-${kind}`,
      kind === "op" ? "operation" : graph.static ? graph.nodes[id].op : kind,
    ),
  ];
  if (kind !== "op" && kind !== "leaf" && graph.nodes[id]?.inferred)
    found.push(element("span", "gw-chip gw-chip-inferred", "inferred"));
  if (graph.roots.some((root) => root.node === id))
    found.push(element("span", "gw-chip gw-chip-root", "output"));
  return [...found, element("span", "gw-node-number", `node ${id}`)];
}

/** A module's name: a button that selects it, if it is drawn. */
function moduleLink(path: string | null, name: string): HTMLElement {
  const text = oneLine(name);
  if (!path) return element("b", {}, text);
  const link = linkButton(text, undefined, { label: `Select the module ${text}` });
  link.dataset.module = path;
  return link;
}

function heading(
  graph: GraphModel,
  id: number,
  known?: string | null,
  module?: string | null,
): HTMLElement {
  const node = graph.nodes[id];
  const isWritten = (node?.kind === "constant" || node?.kind === "leaf") && node.label !== node.op;
  const name = known ?? node?.name ?? (isWritten ? node.label : null);
  const op = node?.op ?? "";
  return element("div", "gw-heading", [
    element("h2", "gw-title", name ?? op),
    name !== null && element("div", "gw-mono gw-dim gw-op-name", op),
    module !== null &&
      module !== undefined &&
      element("div", "gw-dim gw-module", [
        "in ",
        // A module with a numeric name takes its box' name.
        moduleLink(
          node?.namespace,
          /^\d+$/.test(module) ? groupTitle(node?.namespace ?? module, graph) : module,
        ),
        (node?.kind === "op" || node?.kind === "leaf") && node.inferred ? " (inferred)" : null,
      ]),
  ]);
}

function graphSummary(graph: GraphModel): HTMLElement {
  const { nodes, edges } = autogradSize(graph);
  return element("div", "gw-summary", [
    element("h2", "gw-title", graphName(graph)),
    element(
      "p",
      "gw-about",
      `${counted(nodes, "node")}, ${counted(edges, "edge")}, ${leafCount(graph)}. ${
        graph.static
          ? "Click a node to see what it calls, and with what."
          : "Click a node to see its tensor and gradients, a module's box to see what is in it."
      }`,
    ),
  ]);
}

/** The explanation of a node, with its operation's schema. */
function aboutSection({ about, forward, op }: DetailsModel): HTMLElement {
  return section({ key: "about", title: `About ${oneLine(op)}`, open: false }, [
    element("p", "gw-about", about),
    forward !== null &&
      element("code", { class: "gw-forward", title: "The forward operation" }, forward),
  ]);
}
