import { choices } from "../bars/choices";
import { createHelp } from "../bars/help";
import { legendEntries } from "../bars/legend";
import { search } from "../bars/search";
import { createSearchBox } from "../bars/searchbox";
import { Shell } from "../bars/shell";
import { createToolbar } from "../bars/toolbar";
import { createTransportBar } from "../bars/transport_bar";
import { element } from "../dom/element";
import { resizeHandle } from "../dom/handle";
import { ownKeys } from "../dom/own_keys";
import { whenResized } from "../dom/when_resized";
import { liveSvg } from "../export/live";
import { createSaveMenu } from "../export/save_menu";
import { asDirection } from "../layout/direction";
import { hasConstants, isAutograd } from "../scene/shown_graph";
import { runningAt } from "../steps/recording";
import { Stepper, type Stepping } from "../steps/stepping";
import { browserMeasure } from "../text/measure";
import { counted } from "../text/number";
import { compiledSigns, createCompiledTable } from "./compiled";
import { createErrorTable } from "./error_table";
import { readErrors } from "./errors";
import { createLeafTable } from "./leaf_table";
import { compareEntries } from "./legend";
import { createNodeTable } from "./node_table";
import { PaneGrid } from "./pane_grid";
import { bestFlow } from "./scenes";
import {
  areMerged,
  PaneRecordings,
  sentencesOf,
  stepGraph,
  stepperChannel,
  transportOf,
} from "./stepping";
import type { CompareChannel } from "./traits";
import { type Pane, type United, unite } from "./united";

const NARROW = 640;

const isStaticPane = ({ graph }: Pick<Pane, "graph">) => graph.static;

/** Fills an element with a comparison: toolbar, a pane per graph, bar, tables. Returns what takes it all away again. */
export function createComparison(host: HTMLElement, channel: CompareChannel): () => void {
  const shell = new Shell(channel, "gradwalk gw-comparison");
  const { root, cleanup } = shell;
  let united: United | null = null;
  let tablesOpen = true;
  /** What the reader dragged, px; NaN for the default. */
  let height = Number.NaN;

  const select = (place: number | null) => channel.set("selected", place);
  const grid = new PaneGrid(browserMeasure(), {
    select,
    zoomed: (scale) => toolbar.setScale(scale),
    escape: () => searchBox.clear() || shell.leaveFull(),
  });
  const searchBox = createSearchBox({
    find(query) {
      const found = united ? search(united.graph, query).filter((place) => isDrawn(place)) : [];
      grid.markHits(query.trim() === "" ? null : new Set(found), null);
      return found;
    },
    go: (place) => grid.showHit(place),
    left: () => grid.focus(),
  });
  const saving = createSaveMenu(
    () => liveSvg(grid.stills, root, "Autograd graphs side by side"),
    () => united?.panes.map(({ label }) => label) ?? [],
  );
  const toolbar = createToolbar(
    searchBox,
    {
      zoom: (factor) => grid.first?.sight.zoomBy(factor),
      fit: () => grid.first?.sight.fit(),
      toggleFull: () => shell.toggleFull(),
      toggleHelp,
      togglePanel: () => setTables(!tablesOpen),
      toggleConstants: () => channel.set("constants", !channel.get("constants")),
    },
    saving,
  );
  const help = createHelp(shell.legend, element("span"), (direction) => {
    choices.direction = direction;
    channel.set("direction", direction);
  });
  const stepper = new Stepper(
    stepperChannel(channel, () => united),
    showStepping,
  );
  const bar = createTransportBar(stepper, (step) => {
    const place = channel.get("steps")[step]?.node;
    if (place === undefined) return;
    select(place);
    grid.reveal(place, true);
  });
  const recordings = new PaneRecordings();
  const nodeTable = createNodeTable();
  const choose = (place: number) => {
    select(place);
    grid.reveal(place);
  };
  const leafTable = createLeafTable(choose);
  const errorTable = createErrorTable(choose);
  const compiledTable = createCompiledTable(choose);
  const tables = element(
    "div",
    "gw-tables",
    errorTable.element,
    compiledTable.element,
    leafTable.element,
    nodeTable.element,
  );
  const bottom = resizeHandle({
    label: "Resize the graphs",
    axis: "y",
    class: "gw-handle-y",
    grows: true,
    read: () => ({ now: grid.rowHeight, least: 160, most: 2000 }),
    set(size) {
      height = size;
      arrange();
    },
  });
  shell.fill(
    host,
    toolbar.element,
    shell.faults,
    grid.element,
    bottom.element,
    bar.element,
    bar.notes,
    help.element,
    tables,
    shell.status,
  );

  function toggleHelp(): void {
    choices.help = help.element.hidden === true;
    showHelp();
  }

  function showHelp(): void {
    help.element.hidden = !choices.help;
    toolbar.setHelp(choices.help);
  }

  function isDrawn(place: number): boolean {
    return (united?.slot[place] ?? -1) >= 0;
  }

  function setTables(open: boolean): void {
    tablesOpen = open;
    tables.hidden = !open;
    toolbar.setPanel(open);
  }

  function arrange(): void {
    const width = root.clientWidth;
    root.classList.toggle("is-narrow", width > 0 && width < NARROW);
    grid.arrange(width, width < NARROW, height);
    bottom.update();
  }

  const redraw = shell.guarded(() => {
    shell.showPythonFault();
    const panes = channel.get("panes");
    const constants = channel.get("constants");
    united = unite(panes, channel.get("members"), constants);
    const hides = panes.some(({ graph }) => hasConstants(graph));
    toolbar.setConstants(hides ? constants : null);
    const chosen = channel.get("direction");
    const asked = chosen === "auto" ? choices.direction : chosen;
    // The data of static graphs flows down, as in one alone.
    const areStatic = panes.every(isStaticPane);
    const together = united;
    const direction = asDirection(asked, () =>
      areStatic ? "up" : bestFlow(together, browserMeasure(), grid.roomFor(together)),
    );
    help.setDirection(asked, areStatic);
    leafTable.element.hidden = areStatic;
    toolbar.setCrumb(counted(panes.length, "graph"), "", "");
    const errors = channel.get("errors");
    const compiled = channel.get("compiled");
    grid.show(united, direction, errors && readErrors(errors), compiledSigns(compiled));
    compiledTable.update(compiled);
    errorTable.update(errors);
    arrange();
    readSteps();
    searchBox.refresh(united.graph.nodes.length);
  });

  const showPasses = shell.guarded(() => {
    if (!united) return;
    const passes = channel.get("passes");
    grid.markStates(passes.map((pass) => pass.state));
    shell.note.textContent = sentencesOf(
      united.panes,
      passes.map((pass) => pass.state.note),
    );
    showLegend();
  });

  /** The merged steps changed, or what flowed in them. */
  const readSteps = shell.guarded(() => {
    if (united) stepper.read(stepGraph(united, channel.get("steps")));
    showPasses();
  });

  function showStepping(stepping: Stepping): void {
    shell.guarded(() => followStepping(stepping))();
  }

  /** Follows the stepper: all pictures at once, and what runs stays in view. */
  function followStepping(stepping: Stepping): void {
    if (!united) return;
    const passes = channel.get("passes");
    const steps = channel.get("steps");
    bar.update(stepping, transportOf(united.panes, passes), stepGraph(united, steps));
    // Python may have sent only some of what belongs together, or what the stepper is about to read.
    const known = stepping.progress?.recording.steps.length ?? 0;
    if (known !== steps.length || !areMerged(steps, passes)) return;
    const cursor = stepping.progress?.cursor ?? 0;
    const before = grid.progress;
    const progress = recordings
      .read(united.panes, passes, steps)
      .map((recording) => recording && { recording, cursor });
    grid.markProgress(progress);
    showNode();
    showTable();
    const moved = before.some((one, p) => one && one.cursor !== progress[p]?.cursor);
    const running = progress.findIndex((one) => one && runningAt(one.recording, cursor) !== null);
    if (moved && running >= 0) grid.follow(running, cursor);
  }

  function showLegend(): void {
    if (!united) return;
    const passes = channel.get("passes");
    const ran = passes.some((pass) => pass.state.runs > 0);
    shell.legend.replaceChildren(
      ...compareEntries(
        united.members.some((of) => of.includes(null)),
        channel.get("errors") !== null,
      ),
      ...legendEntries({
        isStatic: united.panes.every(isStaticPane) || (united.panes.some(isStaticPane) && "some"),
        stubs: united.panes.some(({ graph }) =>
          graph.nodes.some((node) => node.no_grad_inputs.length > 0),
        ),
        kinds: new Set(united.slots.nodes.map((node) => node.kind)),
        copies: grid.hasCopies,
        ran,
        unreached: passes.some(
          ({ state }, p) =>
            state.runs > 0 &&
            state.reached.length < (united?.panes[p].graph.nodes.filter(isAutograd).length ?? 0),
        ),
        freed: passes.some((pass) => pass.state.freed.length > 0),
        recording: grid.progress.find((one) => one !== null)?.recording ?? null,
      }),
    );
  }

  const showNode = shell.guarded(() => {
    if (united)
      nodeTable.update(united, channel.get("selected"), channel.get("details"), grid.progress);
  });

  const showTable = shell.guarded(() => {
    if (!united) return;
    const total = channel.get("steps").length;
    const cursor = stepper.state.progress?.cursor ?? 0;
    const when = channel.get("passes").map(({ run }) => {
      if (run === null || total === 0) return "now";
      return cursor === total ? "after" : `at step ${cursor}`;
    });
    leafTable.update(
      channel.get("table"),
      united.panes.map(({ label }) => label),
      when,
    );
  });

  const showSelected = shell.guarded(() => {
    const selected = channel.get("selected");
    grid.markSelected(selected);
    leafTable.select(selected);
    errorTable.select(selected);
    showNode();
    if (selected !== null) grid.reveal(selected);
  });

  cleanup.add(() => grid.destroy());
  cleanup.add(() => stepper.destroy());
  shell.on("panes", redraw);
  shell.on("direction", redraw);
  shell.on("constants", redraw);
  shell.on("passes", () => {
    stepper.answered();
    readSteps();
  });
  shell.on("steps", readSteps);
  shell.on("cursor", () => stepper.follow());
  shell.on("table", showTable);
  shell.on("selected", showSelected);
  shell.on("details", showNode);
  shell.on("_fault", () => {
    stepper.answered();
    shell.showPythonFault();
  });

  ownKeys(
    root,
    {
      f: () => grid.first?.sight.fit(),
      "/": () => searchBox.focus(),
      "?": toggleHelp,
      Escape: () => !grid.hasFocus && (shell.leaveFull() || grid.focus()),
    },
    cleanup,
  );
  cleanup.add(
    whenResized([root, grid.element], () => {
      arrange();
      toolbar.tighten();
    }),
  );

  shell.followFull(() => {
    arrange();
    grid.first?.sight.fit(false);
  });
  showHelp();
  redraw();
  showSelected();
  return () => cleanup.run();
}
