import type { Channel } from "./channel";
import { asDirection } from "./drawing/direction";
import { Drawing } from "./drawing/drawing";
import type { Scene } from "./drawing/scene";
import { hasConstants, shownGraph } from "./drawing/shown_graph";
import { foldedIn } from "./drawing/stages";
import { FIRST_SCALE, LARGEST_FIT, MARGIN, READABLE } from "./drawing/views";
import { createFindingsList, labelInModule } from "./findings/findings_list";
import { Folder } from "./groups/folder";
import { keyToFold, pressToFold } from "./groups/gestures";
import { checkGraph } from "./guard";
import { Panel } from "./panel/panel";
import { search } from "./search/search";
import { runningAt } from "./steps/recording";
import { Stepper, type Stepping } from "./steps/stepping";
import { browserMeasure } from "./text/measure";
import { counted } from "./text/number";
import { Cleanup, element } from "./ui/dom";
import { faultBox, messageOf } from "./ui/fault";
import { resizeHandle } from "./ui/handle";
import { legendEntries } from "./ui/legend";
import { createSearchBox } from "./ui/searchbox";
import { followTheme } from "./ui/theme";
import { createToolbar } from "./ui/toolbar";
import { createTransportBar } from "./ui/transport_bar";
import { createViewBar } from "./ui/view_bar";
import type { GraphModel } from "./wire";

const NARROW = 640;
const LEAST_HEIGHT = 340;
const MOST_HEIGHT = 600;
const LEAST_PANEL = 220;

/** Fills an element with the widget: toolbar, drawing, panel, legend, status. Returns what takes it all away again. */
export function createView(host: HTMLElement, channel: Channel): () => void {
  const cleanup = new Cleanup();
  /** All of it, its autograd nodes alone, and what of it is drawn. */
  let graph: GraphModel | null = null;
  let autograd: GraphModel | null = null;
  let shown: GraphModel | null = null;
  let panelOpen = true;
  let legendOpen = true;
  /** What the reader dragged, px; NaN for the default. */
  let height = Number.NaN;
  /** The default height for this picture; NaN until it is known. */
  let fitting = Number.NaN;
  let panelWidth = Number.NaN;

  const measure = browserMeasure();
  const drawing = new Drawing(
    {
      select,
      zoomed: (scale) => toolbar.setScale(scale),
      escape: () => searchBox.clear(),
      pressed: (press) => pressToFold(folder, drawing.scene, press),
      keyed: (key, node) => keyToFold(folder, key, node),
    },
    measure,
  );
  const folder = new Folder(drawing, measure, showFolding);
  const searchBox = createSearchBox({
    find(query) {
      const found = shown ? search(shown, query) : [];
      drawing.mark({ hits: query.trim() === "" ? null : new Set(found), hit: null });
      return found;
    },
    go(id) {
      drawing.mark({ hit: id });
      if (id === null) folder.keep();
      else {
        folder.reveal(id, "peek");
        drawing.reveal(id, true);
      }
    },
    left: () => drawing.focus(),
  });
  const toolbar = createToolbar(searchBox, {
    direction: (direction) => channel.set("direction", direction),
    zoom: (factor) => drawing.zoomBy(factor),
    fit: () => drawing.fit(),
    toggleConstants: () => channel.set("constants", !channel.get("constants")),
    toggleLegend: () => setLegend(!legendOpen),
    togglePanel: () => setPanel(!panelOpen),
  });
  const panel = new Panel({
    goTo(id) {
      select(id);
      panel.focus();
    },
    close() {
      setPanel(false);
      drawing.focus();
    },
  });
  const viewBar = createViewBar(drawing, folder, channel);
  const findings = createFindingsList(
    (node) => {
      select(node);
      folder.reveal(node);
      drawing.reveal(node, true);
    },
    (node) => (graph ? labelInModule(graph.nodes[node]) : `node ${node}`),
  );
  const stepper = new Stepper(channel, showStepping);
  const bar = createTransportBar({
    toStart: () => stepper.toStart(),
    toEnd: () => stepper.toEnd(),
    by: (steps) => stepper.by(steps),
    go: (cursor) => stepper.go(cursor),
    togglePlay: () => stepper.togglePlay(),
    show(node) {
      select(node);
      folder.reveal(node);
      drawing.reveal(node, true);
    },
  });
  const legend = element("div", { class: "gw-legend", role: "list", "aria-label": "Legend" });
  const note = element("span", { class: "gw-note-text" });
  const counts = element("span", { class: "gw-counts" });
  const faults = element("div", { class: "gw-faults" });
  const body = element("div", { class: "gw-body" });
  const width = resizeHandle({
    label: "Resize the details panel",
    axis: "x",
    class: "gw-handle-x",
    grows: false,
    read: () => ({
      now: panel.element.offsetWidth,
      least: LEAST_PANEL,
      most: Math.max(LEAST_PANEL, root.clientWidth * 0.6),
    }),
    set(size) {
      panelWidth = size;
      arrange();
    },
  });
  const bottom = resizeHandle({
    label: "Resize the widget",
    axis: "y",
    class: "gw-handle-y",
    grows: true,
    read: () => ({ now: drawing.element.offsetHeight, least: 180, most: 2000 }),
    set(size) {
      height = size;
      arrange();
    },
  });
  body.append(drawing.element, width.element, panel.element);
  const root = element(
    "div",
    { class: "gradwalk" },
    element(
      "div",
      { class: "gw-frame" },
      toolbar.element,
      viewBar.element,
      faults,
      body,
      bar.element,
      findings.element,
      legend,
      element("div", { class: "gw-status", role: "status" }, note, counts),
      bottom.element,
    ),
  );
  host.append(root);

  function select(id: number | null): void {
    if (id !== null && !panelOpen) setPanel(true);
    channel.set("selected", id);
  }

  function showFolding(): void {
    viewBar.update();
    if (graph) showLegend();
  }

  function setPanel(open: boolean): void {
    panelOpen = open;
    toolbar.setPanel(open);
    arrange();
  }

  function setLegend(open: boolean): void {
    legendOpen = open;
    legend.hidden = !open;
    toolbar.setLegend(open);
  }

  /** Sizes that depend on the width of the cell and on what the reader dragged. */
  function arrange(): void {
    const narrow = root.clientWidth > 0 && root.clientWidth < NARROW;
    root.classList.toggle("is-narrow", narrow);
    panel.element.hidden = !panelOpen;
    width.element.hidden = !panelOpen || narrow;
    panel.element.style.width = narrow
      ? ""
      : `${Number.isNaN(panelWidth) ? defaultPanel(root.clientWidth) : panelWidth}px`;
    const stageWidth = drawing.canvas.clientWidth;
    // Once per picture: a panel that opens later must not change the height of the page.
    if (Number.isNaN(fitting) && stageWidth > 0) fitting = defaultHeight(drawing.scene, stageWidth);
    const wanted = Number.isNaN(height) ? fitting : height;
    if (!Number.isNaN(wanted)) body.style.setProperty("--gw-height", `${Math.round(wanted)}px`);
    drawing.resize({ width: drawing.canvas.clientWidth, height: drawing.canvas.clientHeight });
    width.update();
    bottom.update();
  }

  function showFault(error: unknown): void {
    faults.replaceChildren(faultBox(messageOf(error)));
  }

  function update(part: () => void): () => void {
    return () => {
      try {
        part();
      } catch (error) {
        showFault(error);
      }
    };
  }

  const redraw = update(() => {
    showPythonFault();
    const given = checkGraph(channel.get("graph"));
    const constants = channel.get("constants");
    if (autograd === null || given !== graph) autograd = shownGraph(given, false);
    graph = given;
    shown = constants ? shownGraph(graph, true) : autograd;
    toolbar.setConstants(hasConstants(graph) ? constants : null);
    const direction = asDirection(channel.get("direction"));
    toolbar.setDirection(direction);
    folder.show(shown, direction, graph);
    stepper.read(autograd);
    fitting = Number.NaN;
    const leaves = autograd.nodes.filter((node) => node.kind === "leaf").length;
    const size = `${counted(autograd.nodes.length, "node")}, ${counted(autograd.edges.length, "edge")}`;
    counts.textContent = size;
    drawing.canvas.setAttribute(
      "aria-label",
      `Autograd graph of ${size}, ${counted(leaves, "leaf", "leaves")}. Arrow keys walk along edges, Enter selects, f fits, slash finds, Escape leaves.`,
    );
    arrange();
    showLegend();
    searchBox.refresh();
  });

  const mark = update(() => {
    const state = channel.get("state");
    const ran = (state?.runs ?? 0) > 0;
    drawing.mark({
      ran,
      reached: new Set(state?.reached ?? []),
      flowed: new Set(state?.flowed ?? []),
      freed: new Set(state?.freed ?? []),
    });
    note.textContent = state?.note ?? "";
    showLegend();
  });

  /** Follows the stepper: the picture at once, and the node that runs stays in view. */
  function showStepping(stepping: Stepping): void {
    const { progress } = stepping;
    const before = drawing.progress;
    bar.update(stepping, channel.get("transport") ?? null, graph);
    if (progress === before) return;
    drawing.mark({ progress });
    if (progress?.recording !== before?.recording) {
      showLegend();
      viewBar.update();
    }
    showDetails();
    const running = progress && runningAt(progress.recording, progress.cursor);
    if (before && progress && running !== null) drawing.follow(running);
  }

  const showSteps = update(() => stepper.read(autograd));

  function showLegend(): void {
    if (!shown || !autograd) return;
    const state = channel.get("state");
    legend.replaceChildren(
      ...legendEntries({
        stubs: shown.nodes.some((node) => node.no_grad_inputs.length > 0),
        kinds: new Set(shown.nodes.map((node) => node.kind)),
        copies: drawing.scene?.nodes.some((node) => node.copies > 1) ?? false,
        folded: foldedIn(drawing.scene),
        ran: (state?.runs ?? 0) > 0,
        unreached: (state?.runs ?? 0) > 0 && (state?.reached ?? []).length < autograd.nodes.length,
        freed: (state?.freed ?? []).length > 0,
        recording: drawing.progress?.recording ?? null,
      }),
    );
  }

  const showDetails = update(() => {
    if (graph)
      panel.update(graph, channel.get("selected"), channel.get("details"), drawing.progress);
  });

  const showSelected = update(() => {
    const selected = channel.get("selected");
    if (selected !== null && !panelOpen) setPanel(true);
    drawing.mark({ selected });
    showDetails();
    if (selected !== null) {
      folder.reveal(selected);
      drawing.reveal(selected);
    }
  });

  const showFindings = update(() => findings.update(channel.get("findings") ?? null));

  const showPythonFault = update(() => {
    const fault = channel.get("fault");
    faults.replaceChildren(...(fault ? [faultBox(fault)] : []));
  });

  cleanup.add(() => root.remove());
  cleanup.add(followTheme(root));
  cleanup.add(() => drawing.destroy());
  cleanup.add(() => stepper.destroy());
  cleanup.add(() => panel.destroy());
  const subscribe = (trait: Parameters<Channel["on"]>[0], changed: () => void) =>
    cleanup.add(channel.on(trait, changed));
  subscribe("graph", () => {
    redraw();
    mark();
    showSelected();
  });
  subscribe("direction", redraw);
  subscribe("constants", redraw);
  subscribe("state", () => {
    stepper.answered();
    mark();
  });
  subscribe("steps", showSteps);
  subscribe("run", showSteps);
  subscribe("cursor", () => stepper.follow());
  subscribe("transport", () => {
    stepper.answered();
    showStepping(stepper.state);
  });
  subscribe("selected", showSelected);
  subscribe("details", showDetails);
  subscribe("memory", () => viewBar.update());
  subscribe("dtypes", () => viewBar.update());
  subscribe("findings", showFindings);
  subscribe("fault", () => {
    stepper.answered();
    showPythonFault();
  });

  // Keys pressed in the widget are the widget's: a notebook would take them for commands.
  cleanup.listen<KeyboardEvent>(root, "keydown", (event) => {
    event.stopPropagation();
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test((event.target as Element).tagName);
    if (typing) return;
    if (event.key === "f") drawing.fit();
    else if (event.key === "/") searchBox.focus();
    else if (event.key === "Escape" && !drawing.hasFocus) drawing.focus();
    else return;
    event.preventDefault();
  });
  for (const type of ["keyup", "keypress"])
    cleanup.listen(root, type, (event) => event.stopPropagation());

  // In the next frame: sizes set while sizes are observed would be observed again at once.
  let frame = 0;
  const observer = new ResizeObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(arrange);
  });
  cleanup.add(() => cancelAnimationFrame(frame));
  observer.observe(root);
  observer.observe(drawing.canvas);
  cleanup.add(() => observer.disconnect());

  redraw();
  mark();
  showSelected();
  showFindings();
  return () => cleanup.run();
}

/** High enough for a small graph at its largest, and no higher; a large one gets a window to look through. */
function defaultHeight(scene: Scene | null, width: number): number {
  if (!scene) return LEAST_HEIGHT;
  const scale = Math.min(LARGEST_FIT, (width - 2 * MARGIN) / Math.max(1, scene.width));
  const readable = scale < READABLE ? FIRST_SCALE : scale;
  return Math.max(LEAST_HEIGHT, Math.min(MOST_HEIGHT, scene.height * readable + 2 * MARGIN));
}

function defaultPanel(width: number): number {
  return Math.round(Math.max(270, Math.min(360, width * 0.36)));
}
