import { legendEntries } from "../bars/legend";
import { search } from "../bars/search";
import { createSearchBox } from "../bars/searchbox";
import { createToolbar } from "../bars/toolbar";
import { createTransportBar } from "../bars/transport_bar";
import { Cleanup, element } from "../dom/element";
import { faultBox, messageOf } from "../dom/fault";
import { resizeHandle } from "../dom/handle";
import { ownKeys } from "../dom/own_keys";
import { followTheme } from "../dom/theme";
import { whenResized } from "../dom/when_resized";
import { asDirection } from "../layout/direction";
import { isAutograd } from "../scene/shown_graph";
import { runningAt } from "../steps/recording";
import { Stepper, type Stepping } from "../steps/stepping";
import { browserMeasure } from "../text/measure";
import { createLeafTable } from "./leaf_table";
import { compareEntries } from "./legend";
import { createNodeTable } from "./node_table";
import { PaneGrid } from "./pane_grid";
import {
  areMerged,
  PaneRecordings,
  sentencesOf,
  stepGraph,
  stepperChannel,
  transportOf,
} from "./stepping";
import type { CompareChannel, CompareTraits } from "./traits";
import { type Pane, type United, unite } from "./united";

const NARROW = 640;

const isStaticPane = ({ graph }: Pane) => graph.static;

/** Fills an element with a comparison: toolbar, a pane per graph, bar, tables. Returns what takes it all away again. */
export function createComparison(host: HTMLElement, channel: CompareChannel): () => void {
  const cleanup = new Cleanup();
  let united: United | null = null;
  let tablesOpen = true;
  let legendOpen = true;
  /** What the reader dragged, px; NaN for the default. */
  let height = Number.NaN;

  const select = (place: number | null) => channel.set("selected", place);
  const grid = new PaneGrid(browserMeasure(), {
    select,
    zoomed: (scale) => toolbar.setScale(scale),
    escape: () => searchBox.clear(),
  });
  const searchBox = createSearchBox({
    find(query) {
      const found = united ? search(united.graph, query) : [];
      grid.markHits(query.trim() === "" ? null : new Set(found), null);
      return found;
    },
    go: (place) => grid.showHit(place),
    left: () => grid.focus(),
  });
  const toolbar = createToolbar(searchBox, {
    direction: (direction) => channel.set("direction", direction),
    zoom: (factor) => grid.first?.zoomBy(factor),
    fit: () => grid.first?.fit(),
    toggleLegend: () => setLegend(!legendOpen),
    togglePanel: () => setTables(!tablesOpen),
    toggleConstants: () => {},
  });
  const stepper = new Stepper(
    stepperChannel(channel, () => united),
    showStepping,
  );
  const bar = createTransportBar({
    toStart: () => stepper.toStart(),
    toEnd: () => stepper.toEnd(),
    by: (steps) => stepper.by(steps),
    go: (cursor) => stepper.go(cursor),
    togglePlay: () => stepper.togglePlay(),
    show(step) {
      const place = channel.get("steps")[step]?.node;
      if (place === undefined) return;
      select(place);
      grid.reveal(place, true);
    },
  });
  const recordings = new PaneRecordings();
  const nodeTable = createNodeTable();
  const leafTable = createLeafTable((place) => {
    select(place);
    grid.reveal(place);
  });
  const legend = element("div", { class: "gw-legend", role: "list", "aria-label": "Legend" });
  const note = element("span", { class: "gw-note-text" });
  const faults = element("div", { class: "gw-faults" });
  const tables = element("div", { class: "gw-tables" }, leafTable.element, nodeTable.element);
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
  const root = element(
    "div",
    { class: "gradwalk gw-comparison" },
    element(
      "div",
      { class: "gw-frame" },
      toolbar.element,
      faults,
      grid.element,
      bottom.element,
      bar.element,
      legend,
      tables,
      element("div", { class: "gw-status", role: "status" }, note),
    ),
  );
  host.append(root);

  function setTables(open: boolean): void {
    tablesOpen = open;
    tables.hidden = !open;
    toolbar.setPanel(open);
  }

  function setLegend(open: boolean): void {
    legendOpen = open;
    legend.hidden = !open;
    toolbar.setLegend(open);
  }

  function arrange(): void {
    const width = root.clientWidth;
    root.classList.toggle("is-narrow", width > 0 && width < NARROW);
    grid.arrange(width, width < NARROW, height);
    bottom.update();
  }

  function update(part: () => void): () => void {
    return () => {
      try {
        part();
      } catch (error) {
        faults.replaceChildren(faultBox(messageOf(error)));
      }
    };
  }

  const redraw = update(() => {
    showPythonFault();
    united = unite(channel.get("panes"), channel.get("members"));
    const direction = asDirection(channel.get("direction"));
    toolbar.setDirection(direction);
    grid.show(united, direction);
    arrange();
    readSteps();
    searchBox.refresh();
  });

  const showPasses = update(() => {
    if (!united) return;
    const passes = channel.get("passes");
    grid.markStates(passes.map((pass) => pass.state));
    note.textContent = sentencesOf(
      united.panes,
      passes.map((pass) => pass.state.note),
    );
    showLegend();
  });

  /** The merged steps changed, or what flowed in them. */
  const readSteps = update(() => {
    if (united) stepper.read(stepGraph(united, channel.get("steps")));
    showPasses();
  });

  function showStepping(stepping: Stepping): void {
    update(() => followStepping(stepping))();
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
    legend.replaceChildren(
      ...compareEntries(united.members.some((of) => of.includes(null))),
      ...legendEntries({
        isStatic: united.panes.every(isStaticPane) || (united.panes.some(isStaticPane) && "some"),
        stubs: united.panes.some(({ graph }) =>
          graph.nodes.some((node) => node.no_grad_inputs.length > 0),
        ),
        kinds: new Set(united.graph.nodes.map((node) => node.kind)),
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

  const showNode = update(() => {
    if (united)
      nodeTable.update(united, channel.get("selected"), channel.get("details"), grid.progress);
  });

  const showTable = update(() => {
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

  const showSelected = update(() => {
    const selected = channel.get("selected");
    grid.markSelected(selected);
    leafTable.select(selected);
    showNode();
    if (selected !== null) grid.reveal(selected);
  });

  const showPythonFault = update(() => {
    const fault = channel.get("fault");
    faults.replaceChildren(...(fault ? [faultBox(fault)] : []));
  });

  cleanup.add(() => root.remove());
  cleanup.add(followTheme(root));
  cleanup.add(() => grid.destroy());
  cleanup.add(() => stepper.destroy());
  const subscribe = (trait: keyof CompareTraits, changed: () => void) =>
    cleanup.add(channel.on(trait, changed));
  subscribe("panes", redraw);
  subscribe("direction", redraw);
  subscribe("passes", () => {
    stepper.answered();
    readSteps();
  });
  subscribe("steps", readSteps);
  subscribe("cursor", () => stepper.follow());
  subscribe("table", showTable);
  subscribe("selected", showSelected);
  subscribe("details", showNode);
  subscribe("fault", () => {
    stepper.answered();
    showPythonFault();
  });

  ownKeys(
    root,
    {
      f: () => grid.first?.fit(),
      "/": () => searchBox.focus(),
      Escape: () => !grid.hasFocus && grid.focus(),
    },
    cleanup,
  );
  cleanup.add(whenResized([root, grid.element], arrange));

  redraw();
  showSelected();
  return () => cleanup.run();
}
