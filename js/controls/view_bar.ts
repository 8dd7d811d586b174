import type { Channel } from "../channel";
import { answerOf } from "../colours/answer";
import { alarmOf, type ColourLegend, type ColourSources } from "../colours/colouring";
import { colouringOf, colourModes, firstMode, knownFor } from "../colours/modes";
import { type GradientNorms, gradientNorms, passNorms } from "../colours/norms";
import { tileGrads, uncoloured } from "../colours/tile_grads";
import { widthsOf } from "../colours/widths";
import { button, choice, element, optionsOf, say, write } from "../dom/element";
import { ICONS } from "../dom/icons";
import { Remembered } from "../dom/remembered";
import { deepest, depthOf, setPlumbing, setRepeats, toDepth } from "../fold/folding";
import type { Drawing } from "../interact/drawing";
import type { FoldController } from "../interact/fold_controller";
import { whileSame } from "../maps";
import type { Gradients } from "../scene/parameters";
import type { Scene } from "../scene/scene";
import type { Measure } from "../text/measure";
import { counted } from "../text/number";
import type { GraphModel } from "../wire";
import { choices } from "./choices";
import { createColourControls } from "./colour_controls";
import { widthEntries } from "./legend";

/** A question without an answer for this long may be lost, and can be asked again. */
const PATIENCE_MS = 10_000;

/** The view menu: folding, names and colours. */
export class ViewBar {
  /** A button with its menu. */
  readonly element: HTMLElement;
  private readonly menu: HTMLElement;
  private readonly opener: HTMLButtonElement;
  private readonly names: HTMLButtonElement;
  private readonly widths: HTMLButtonElement;
  /** The key of the lines' widths. */
  readonly widthKey = element("span", { class: "gw-width-key", hidden: true });
  /** The state of a model's gradients, in a sentence. */
  readonly answer = element("span", { class: "gw-answer", hidden: true });
  /** The button that asks for a diagnosis. */
  readonly diagnose: HTMLButtonElement;
  private readonly folding: ReturnType<typeof createFoldingControls>;
  private readonly choice: ReturnType<typeof createColourControls>;
  private readonly sources: () => Sources;
  private readonly coloured = new Remembered();
  private readonly widened = new Remembered();
  private readonly judged = new Remembered();
  private shown: ColourLegend | null = null;
  /** Replaced only when its content changes. */
  private alarms: Map<number, string> | null = null;
  private wanted = choices.colour;
  /** The shown overlay: a new one takes the place of what was chosen. */
  private overlay = "";
  private hasTorchNames = choices.torchNames;
  private askedMemory = false;
  private patience = 0;

  constructor(
    private readonly drawing: Drawing,
    private readonly folds: FoldController,
    private readonly channel: Pick<Channel, "get" | "send">,
    measure: Measure,
    renamed: () => void,
  ) {
    this.sources = colourSources(drawing, folds, channel, measure);
    this.folding = createFoldingControls(folds);
    const choose = (choice: string) => {
      choices.colour = choice;
      this.wanted = choice;
      this.update();
    };
    this.choice = createColourControls(choose, () => this.askDiagnosis());
    this.names = toggle(
      "Torch's names",
      "Call operations as torch calls them, MulBackward0, and not as on a board",
      () => {
        this.hasTorchNames = !this.hasTorchNames;
        choices.torchNames = this.hasTorchNames;
        renamed();
      },
    );
    this.widths = toggle(
      "Width by gradient norm",
      "Draw the arrows of a pass the wider the larger the norms of their gradients are",
      () => {
        choices.widths = !choices.widths;
        this.update();
      },
    );
    this.diagnose = button(DIAGNOSE, () => this.askDiagnosis());
    this.menu = element(
      "div",
      { class: "gw-menu-list gw-view-bar", role: "group", "aria-label": "How the graph is shown" },
      [this.folding.element, this.names, this.widths],
    );
    this.opener = button({ label: "View", title: "How the graph is shown", icon: ICONS.view }, () =>
      this.setOpen(this.menu.hidden === true),
    );
    this.element = element("span", { class: "gw-menu gw-view", hidden: true }, [
      this.opener,
      this.menu,
    ]);
    this.listen();
    this.setOpen(false);
  }

  get colours(): HTMLElement {
    return this.choice.element;
  }

  get key(): HTMLElement {
    return this.choice.key;
  }

  /** The legend in plain words, for files; null without colours. */
  get legend(): ColourLegend | null {
    return this.shown;
  }

  /** Whether operations have torch's names instead of a board's signs. */
  get torchNames(): boolean {
    return this.hasTorchNames;
  }

  /** Show the current folding. Recolour if the folding or the colours' data changed. */
  update(): void {
    const { canFold, grouped } = this.folds;
    const isStatic = grouped?.graph.static ?? false;
    this.element.hidden = !canFold && isStatic;
    this.diagnose.hidden = isStatic;
    this.names.hidden = isStatic;
    this.names.setAttribute("aria-pressed", String(this.hasTorchNames));
    this.widths.setAttribute("aria-pressed", String(choices.widths));
    this.folding.update();
    const known = this.sources();
    const first = firstMode(known);
    if (first.startsWith("overlay") && first !== this.overlay) this.wanted = null;
    this.overlay = first;
    const canColour = canFold || first !== "parameters";
    this.choice.element.hidden = this.drawing.scene === null || !canColour;
    if (canColour && !this.askedMemory && (this.channel.get("_memory") ?? null) === null) {
      this.askedMemory = true;
      this.channel.send({ kind: "memory" });
    }
    this.colour(canColour, first, known);
    this.widths.hidden = known.norms === null;
    this.widen(known.norms);
    this.judge(known.gradients);
  }

  /** Show the number of findings; null before a diagnosis. */
  setFindings(count: number | null): void {
    this.diagnose.textContent = count === null ? DIAGNOSE.text : `${DIAGNOSE.text} · ${count}`;
    say(
      this.diagnose,
      "aria-label",
      count === null ? "Diagnose" : `Diagnose, ${counted(count, "finding")}`,
    );
  }

  answered(): void {
    window.clearTimeout(this.patience);
    this.setWorking(false);
  }

  private listen(): void {
    const { element, menu, opener } = this;
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || menu.hidden) return;
      event.preventDefault();
      this.setOpen(false);
      opener.focus();
    });
    element.addEventListener("focusout", ({ relatedTarget }) => {
      // In some browsers a clicked button does not take the focus.
      if (relatedTarget !== null && !element.contains(relatedTarget as Node)) this.setOpen(false);
    });
  }

  private setOpen(open: boolean): void {
    this.menu.hidden = !open;
    this.opener.setAttribute("aria-expanded", String(open));
  }

  /** Ask for a diagnosis. A second press before the answer does nothing; the focus stays. */
  private askDiagnosis(): void {
    if (this.diagnose.ariaDisabled === "true") return;
    this.setWorking(true);
    const answered = () => this.answered();
    this.patience = window.setTimeout(answered, PATIENCE_MS);
    this.channel.send({ kind: "diagnose" }, answered);
  }

  private setWorking(works: boolean): void {
    this.diagnose.ariaDisabled = String(works);
    this.diagnose.classList.toggle("is-working", works);
  }

  /** Set the widths of the lines, and their key. */
  private widen(norms: GradientNorms | null): void {
    const { drawing, widthKey } = this;
    const { scene } = drawing;
    if (!scene || !this.widened.isNew(scene, norms, choices.widths)) return;
    const widths = choices.widths && norms ? widthsOf(scene, norms) : null;
    drawing.mark({ widths });
    widthKey.hidden = widths === null;
    widthKey.replaceChildren(...widthEntries(widths));
  }

  /** Say the state of the gradients. */
  private judge(gradients: Gradients | null): void {
    const { answer, drawing, folds } = this;
    const { drawnGraph } = folds;
    const { scene } = drawing;
    if (!this.judged.isNew(scene, drawnGraph, gradients)) return;
    const words = scene && drawnGraph && gradients ? answerOf(drawnGraph, scene, gradients) : null;
    answer.hidden = words === null;
    write(answer, words ?? "");
  }

  private colour(canColour: boolean, first: string, known: ColourSources): void {
    const { drawing, wanted } = this;
    const { scene } = drawing;
    const suits = [wanted, first, "parameters", "class"].find(
      (one) => knownFor(one, known) !== null,
    );
    const by = (canColour && suits) || "none";
    const { norms, tiles } = known;
    // The choices may change while the chosen one does not.
    const modes = colourModes(known).map((mode) => ({
      ...mode,
      isKnown: mode.known(known) !== null,
    }));
    const choices = modes.map(({ name, isKnown }) => `${name} ${isKnown}`).join();
    const isNew =
      scene && this.coloured.isNew(scene, by, tiles, norms, knownFor(by, known), choices);
    if (!isNew) return;
    const { tint, legend, bars } = colouringOf(by, scene, known);
    this.shown = legend;
    const found = norms && alarmsIn(scene, norms, by);
    const { alarms } = this;
    const isOther = JSON.stringify([...(found ?? [])]) !== JSON.stringify([...(alarms ?? [])]);
    if (isOther || !found || !alarms) this.alarms = found;
    drawing.mark({
      tint,
      tiles: bars ?? (tiles && (by === "none" ? uncoloured(tiles.tiles) : tiles.tiles)),
      alarms: this.alarms,
    });
    this.choice.update(by, modes, legend);
  }
}

interface Sources extends ColourSources {
  /** The recorded pass, else what `.grad` holds; null for neither. */
  gradients: Gradients | null;
}

const DIAGNOSE = {
  class: "gw-button gw-text-button gw-diagnose",
  label: "Diagnose",
  text: "Diagnose",
  title:
    "Look for vanishing, exploding, dead and NaN gradients, for parameters without any, and for what holds most memory",
};

/** Return what reads the data of the colours; computed data is kept while its inputs stay the same. */
function colourSources(
  drawing: Drawing,
  folds: FoldController,
  channel: Pick<Channel, "get">,
  measure: Measure,
): () => Sources {
  const normsOf = whileSame(gradientNorms);
  const tilesOf = whileSame((graph: GraphModel, scene: Scene, gradients: Gradients) => {
    const { drawnGraph, folding } = folds;
    const hides = folding?.hidesPlumbing ?? false;
    const pass = drawnGraph ? passNorms(drawnGraph, gradients, hides) : [];
    return tileGrads(graph, scene, gradients, measure, pass);
  });
  return () => {
    const { graph = null, tree = null } = folds.drawnGraph ?? {};
    const { scene, progress } = drawing;
    const { held } = drawing.seen;
    const { recording } = progress ?? {};
    const gradients = progress ? (recording?.run ? recording : null) : held.size > 0 ? held : null;
    return {
      get: (trait) => channel.get(trait),
      graph,
      tree,
      gradients,
      tiles: graph && scene && gradients ? tilesOf(graph, scene, gradients) : null,
      norms: graph && recording?.run ? normsOf(graph, recording.run) : null,
    };
  };
}

/** The closed boxes with bad gradients inside, which any colouring marks. */
function alarmsIn(scene: Scene, norms: GradientNorms, by: string): Map<number, string> {
  const alarms = new Map<number, string>();
  for (const node of scene.nodes) {
    const alarm = node.group || by === "gradient" ? alarmOf(node, norms) : null;
    // A node that shows its number already shows zero.
    const isWritten = alarm === "0" && (node.bar || typeof node.shape.tile?.number === "number");
    if (alarm && !isWritten) alarms.set(node.index, alarm);
  }
  return alarms;
}

/** The deepest level with a button of its own; boxes below open one by one. */
const MOST_LEVELS = 4;

/** The controls of open levels, hidden plumbing and folded repeats. */
function createFoldingControls(folds: FoldController) {
  const label = "How many levels of modules are open";
  const depths = choice({ class: "gw-depth", "aria-label": label, title: label }, (value) => {
    const { grouped } = folds;
    const depth = value === "all" ? Number.POSITIVE_INFINITY : Number(value);
    if (grouped) folds.change((folding) => toDepth(grouped.tree, folding, depth), true);
  });
  const modules = element("label", "gw-menu-choice", [element("span", {}, "Modules"), depths]);
  const plumbing = toggle(
    "Hide views and transposes",
    "Fold views, transposes, expands, clones and casts into the edges that they sit on",
    () => folds.change((folding) => setPlumbing(folding, !folding.hidesPlumbing)),
  );
  const repeats = toggle(
    "Fold repeats",
    "Draw four or more blocks that are alike and follow each other as a strip of bars",
    () => folds.change((folding) => setRepeats(folding, !folding.foldsRepeats)),
  );
  const shown = new Remembered();
  return {
    element: element("span", "gw-folding", [modules, repeats, plumbing]),
    update() {
      const { grouped, folding } = folds;
      if (!grouped || !folding) return;
      const { tree } = grouped;
      const levels = deepest(tree);
      modules.hidden = levels === 0;
      repeats.hidden = levels === 0;
      plumbing.hidden = !grouped.plumbing.includes(1);
      plumbing.setAttribute("aria-pressed", String(folding.hidesPlumbing));
      repeats.setAttribute("aria-pressed", String(folding.foldsRepeats));
      const depth = depthOf(tree, folding);
      const options: [string, string][] = [["0", "closed"]];
      for (let d = 1; d < levels && d <= MOST_LEVELS; d++) options.push([`${d}`, `depth ${d}`]);
      options.push(["all", "all open"]);
      const value = depth === null ? "" : depth === levels ? "all" : `${depth}`;
      if (!options.some(([known]) => known === value)) options.unshift([value, "automatic"]);
      if (shown.isNew(options.join())) depths.replaceChildren(...optionsOf(options));
      if (depths.value !== value) depths.value = value;
    },
  };
}

/** A choice that is on or off. */
function toggle(text: string, title: string, clicked: () => void): HTMLButtonElement {
  return button(
    { label: text, title, text, pressed: false, class: "gw-menu-item gw-toggle" },
    clicked,
  );
}
