import { choices } from "../controls/choices";
import { createHelp } from "../controls/help";
import { drawingEntries, entry } from "../controls/legend";
import { matchWords, search } from "../controls/search";
import { SearchBox } from "../controls/searchbox";
import { Shell } from "../controls/shell";
import { Toolbar } from "../controls/toolbar";
import { TransportBar } from "../controls/transport_bar";
import { element } from "../dom/element";
import { resizeHandle } from "../dom/handle";
import { ownKeys } from "../dom/own_keys";
import { whenResized } from "../dom/when_resized";
import { liveSvg } from "../export/live";
import { createSaveMenu } from "../export/save_menu";
import { asDirection, type Direction } from "../layout/direction";
import { labelParts } from "../paint/label_parts";
import { part } from "../paint/parts";
import { hasConstants, isAutograd } from "../scene/shown_graph";
import { runningAt } from "../steps/recording";
import { Stepper, type Stepping } from "../steps/stepping";
import { browserMeasure } from "../text/measure";
import { counted } from "../text/number";
import type { CompareTraits } from "../wire";
import type { CompareChannel } from "./compare_part";
import { PaneGrid } from "./pane_grid";
import { bestFlow, type PaneOptions } from "./scenes";
import {
  areMerged,
  paneRecordings,
  sentencesOf,
  stepGraph,
  stepperChannel,
  transportOf,
} from "./stepping";
import { CompareTables } from "./tables";
import { type Pane, type United, unite } from "./united";

const NARROW = 640;

const isStaticPane = ({ graph }: Pick<Pane, "graph">) => graph.static;

/** Fill an element with a comparison: toolbar, panes, bar, tables. Returns a function that removes it. */
export function createComparison(host: HTMLElement, channel: CompareChannel): () => void {
  const view = new Comparison(channel);
  view.fill(host);
  view.follow();
  return () => view.destroy();
}

class Comparison {
  private readonly shell: Shell<CompareTraits>;
  private readonly grid: PaneGrid;
  private readonly search: SearchBox;
  private readonly toolbar: Toolbar;
  private readonly help: ReturnType<typeof createHelp>;
  private readonly stepper: Stepper;
  private readonly bar: TransportBar;
  private readonly tables: CompareTables;
  private readonly bottom: ReturnType<typeof resizeHandle>;
  private readonly recordingsOf = paneRecordings();
  private united: United | null = null;
  private showsHelp = false;
  /** The height that the reader dragged, px; NaN for the default. */
  private height = Number.NaN;

  constructor(private readonly channel: CompareChannel) {
    this.shell = new Shell(channel, "gradwalk gw-comparison");
    this.grid = new PaneGrid(browserMeasure(), {
      select: (place) => this.select(place),
      zoomed: (scale) => this.toolbar.setScale(scale),
      escape: () => this.search.clear() || this.closeHelp() || this.shell.leaveFull(),
      folded: () => this.draw(),
    });
    this.search = this.createSearch();
    this.toolbar = this.createTools();
    this.help = createHelp(this.shell.legend, element("span"), (direction) => {
      choices.direction = direction;
      channel.set("direction", direction);
    });
    this.stepper = new Stepper(
      stepperChannel(channel, () => this.united),
      (stepping) => this.shell.guarded(() => this.followStepping(stepping))(),
    );
    this.bar = new TransportBar(this.stepper, (step) => {
      const place = channel.get("_steps")[step]?.node;
      if (place === undefined) return;
      this.select(place);
      this.grid.reveal(place);
    });
    this.tables = new CompareTables(channel, (place) => {
      this.select(place);
      this.grid.openTo(place);
      this.grid.reveal(place);
    });
    this.bottom = resizeHandle({
      label: "Resize the graphs",
      axis: "y",
      class: "gw-handle-y",
      grows: true,
      read: () => ({ now: this.grid.rowHeight, least: 160, most: 2000 }),
      set: (size) => {
        this.height = size;
        this.arrange();
      },
    });
  }

  fill(host: HTMLElement): void {
    const { shell, grid, bar, toolbar } = this;
    const { root, cleanup } = shell;
    shell.fill(
      host,
      toolbar.element,
      shell.faults,
      grid.element,
      this.bottom.element,
      bar.element,
      bar.notes,
      this.help.element,
      this.tables.element,
      shell.status,
    );
    const keys = {
      f: () => grid.first?.viewport.fit(),
      "/": () => this.search.focus(),
      "?": () => this.toggleHelp(),
      Escape: () => !grid.hasFocus && (shell.leaveFull() || grid.focus()),
    };
    ownKeys(root, keys, cleanup);
    const resized = () => {
      this.arrange();
      toolbar.tighten();
    };
    cleanup.add(whenResized([root, grid.element], resized));
    shell.followFull((full) => {
      this.arrange();
      grid.first?.viewport.fill(full);
    });
  }

  follow(): void {
    const { shell, stepper } = this;
    const redraw = shell.guarded(() => this.draw());
    const readSteps = shell.guarded(() => this.readSteps());
    const showNode = shell.guarded(() => this.showNode());
    const showSelected = shell.guarded(() => this.showSelected());
    shell.on("panes", redraw);
    shell.on("direction", redraw);
    shell.on("constants", redraw);
    shell.on("passes", () => {
      stepper.answered();
      readSteps();
    });
    shell.on("_steps", readSteps);
    shell.on("cursor", () => stepper.follow());
    shell.on(
      "table",
      shell.guarded(() => this.showTable()),
    );
    shell.on("selected", showSelected);
    shell.on("details", showNode);
    shell.on("_fault", () => {
      stepper.answered();
      shell.showPythonFault();
    });
    this.toolbar.set("panel", true);
    this.showHelp();
    redraw();
    showSelected();
  }

  destroy(): void {
    this.stepper.destroy();
    this.grid.destroy();
    this.shell.cleanup.run();
  }

  private createSearch(): SearchBox {
    const { grid } = this;
    const isDrawn = (place: number) => (this.united?.slot[place] ?? -1) >= 0;
    return new SearchBox({
      find: (query) => {
        const { united } = this;
        const found = united ? search(united.graph, query).filter(isDrawn) : [];
        grid.markHits(query.trim() === "" ? null : new Set(found), null);
        return found;
      },
      describe: (place) => matchWords(this.united?.graph.nodes[place] ?? null),
      go: (place) => grid.showHit(place),
      left: () => grid.focus(),
    });
  }

  private createTools(): Toolbar {
    const { grid, shell, channel } = this;
    const saving = createSaveMenu(
      () => liveSvg(grid.snapshots, shell.root, "Autograd graphs side by side"),
      () => this.united?.panes.map(({ label }) => label) ?? [],
    );
    return new Toolbar(
      {
        zoom: (factor) => grid.first?.viewport.zoomBy(factor),
        fit: () => grid.first?.viewport.fit(),
        toggleFull: () => shell.toggleFull(),
        toggleHelp: () => this.toggleHelp(),
        togglePanel: () => this.toolbar.set("panel", this.tables.toggle()),
        toggleConstants: () => channel.set("constants", !channel.get("constants")),
      },
      { search: this.search, saving },
    );
  }

  private select(place: number | null): void {
    this.channel.set("selected", place);
  }

  private toggleHelp(): void {
    this.showsHelp = !this.showsHelp;
    this.showHelp();
  }

  private closeHelp(): boolean {
    const { showsHelp } = this;
    if (showsHelp) this.toggleHelp();
    return showsHelp;
  }

  private showHelp(): void {
    this.help.element.hidden = !this.showsHelp;
    this.toolbar.set("help", this.showsHelp);
  }

  private arrange(): void {
    const { root } = this.shell;
    const width = root.clientWidth;
    root.classList.toggle("is-narrow", width > 0 && width < NARROW);
    this.grid.arrange(width, width < NARROW, this.height);
    this.bottom.update();
  }

  private draw(): void {
    const { channel, toolbar, grid } = this;
    this.shell.showPythonFault();
    const panes = channel.get("panes");
    const constants = channel.get("constants");
    const united = unite(panes, channel.get("members"), constants);
    this.united = united;
    toolbar.set("constants", panes.some(({ graph }) => hasConstants(graph)) ? constants : null);
    toolbar.setCrumb(counted(panes.length, "graph"), "", "");
    for (const part of this.tables.parts) part.update();
    grid.show(united, (options) => this.direction(united, options), this.tables.parts);
    this.tables.show(united);
    this.arrange();
    this.readSteps();
    this.search.refresh(united.graph.nodes.length);
  }

  /** The direction of all graphs: the chosen one, or the one that shows them largest. */
  private direction(united: United, options: PaneOptions): Direction {
    const chosen = this.channel.get("direction");
    const asked = chosen === "auto" ? choices.direction : chosen;
    // As in a single static graph, data flows down.
    const areStatic = united.panes.every(isStaticPane);
    this.help.setDirection(asked, areStatic);
    return asDirection(asked, () =>
      areStatic ? "up" : bestFlow(united, browserMeasure(), this.grid.roomFor(united), options),
    );
  }

  private showPasses(): void {
    const { united } = this;
    if (!united) return;
    const states = this.channel.get("passes").map((pass) => pass.state);
    this.grid.markStates(states);
    this.shell.note.textContent = sentencesOf(
      united.panes,
      states.map(({ note }) => note),
    );
    this.showLegend(united);
  }

  /** The merged steps changed, or the gradients in them. */
  private readSteps(): void {
    if (this.united) this.stepper.read(stepGraph(this.united, this.channel.get("_steps")));
    this.showPasses();
  }

  /** Show a step in all panes, and keep the running node in view. */
  private followStepping(stepping: Stepping): void {
    const { united, channel, grid } = this;
    if (!united) return;
    const passes = channel.get("passes");
    const steps = channel.get("_steps");
    const transport = transportOf(united.panes, passes);
    this.bar.update(stepping, { transport, graph: stepGraph(united, steps) });
    // Related traits arrive one by one.
    const known = stepping.progress?.recording.steps.length ?? 0;
    if (known !== steps.length || !areMerged(steps, passes)) return;
    const cursor = stepping.progress?.cursor ?? 0;
    const before = grid.progress;
    const progress = this.recordingsOf(united.panes, passes, steps).map(
      (recording) => recording && { recording, cursor },
    );
    grid.markProgress(progress);
    this.showNode();
    this.showTable();
    const moved = before.some((one, p) => one && one.cursor !== progress[p]?.cursor);
    const running = progress.findIndex((one) => one && runningAt(one.recording, cursor) !== null);
    if (moved && running >= 0) grid.follow(running, cursor);
  }

  private showLegend(united: United): void {
    const { channel, grid } = this;
    const passes = channel.get("passes");
    const isPartial = united.members.some((of) => of.includes(null));
    this.shell.legend.replaceChildren(
      ...(isPartial ? onlyEntries() : []),
      ...this.tables.parts.flatMap((part) => part.legend?.() ?? []),
      ...drawingEntries(
        grid.drawings.map((drawing, p) => {
          const { graph } = united.panes[p];
          const autograd = graph.nodes.filter(isAutograd).length;
          return { drawing, graph, autograd, state: passes[p]?.state };
        }),
      ),
    );
  }

  private showNode(): void {
    if (this.united) this.tables.showNode(this.united, this.grid.progress);
  }

  private showTable(): void {
    if (this.united) this.tables.showLeaves(this.united, this.stepper.state.progress?.cursor ?? 0);
  }

  private showSelected(): void {
    const selected = this.channel.get("selected");
    this.grid.markSelected(selected);
    this.tables.select(selected);
    this.showNode();
    if (selected !== null) this.grid.reveal(selected);
  }
}

/** The legend's entries for what not all graphs have. */
function onlyEntries(): HTMLElement[] {
  const ground = { class: "gw-only-ground", x: -29, y: -9, width: 58, height: 18, rx: 5 };
  const tag = labelParts({ x: 0, y: 0, width: 50, height: 13, text: "only here" });
  const lacking = { class: "gw-ghost", x: -12, y: -6.5, width: 24, height: 13, rx: 4 };
  const only = [part("rect", ground), part("g", { class: "gw-only-tag" }, tag)];
  return [
    entry("what other graphs lack", 60, only, 20),
    entry("what this graph lacks", 28, [part("rect", lacking)], 20),
  ];
}
