import { Arrangement } from "./bars/arrangement";
import { choices } from "./bars/choices";
import { Corner } from "./bars/corner";
import { createFindingsList, labelInModule } from "./bars/findings_list";
import { createHelp } from "./bars/help";
import { drawingEntries } from "./bars/legend";
import { createProgress } from "./bars/progress";
import { createRankChoice } from "./bars/rank_choice";
import { Refit } from "./bars/refit";
import { search } from "./bars/search";
import { createSearchBox } from "./bars/searchbox";
import { Shell } from "./bars/shell";
import { createToolbar } from "./bars/toolbar";
import { createViewBar } from "./bars/view_bar";
import { offerWork, showWork } from "./bars/work_progress";
import type { Channel, Traits } from "./channel";
import { say, write } from "./dom/element";
import { ownKeys } from "./dom/own_keys";
import { whenResized } from "./dom/when_resized";
import { liveSvg } from "./export/live";
import { createSaveMenu } from "./export/save_menu";
import { Drawing } from "./interact/drawing";
import { Folder } from "./interact/folder";
import { keyToFold, pressToFold } from "./interact/gestures";
import { Opening } from "./interact/opening";
import { Way } from "./interact/way";
import { Laboratory } from "./laboratory/laboratory";
import { Living } from "./laboratory/living";
import { WhatIf } from "./laboratory/what_if";
import { seenMarks } from "./paint/marks";
import { ModuleSelection } from "./panel/module_selection";
import { Panel } from "./panel/panel";
import { drawsConstants } from "./scene/card";
import { browserMeasure } from "./text/measure";
import { Drawable } from "./view/drawable";
import { Playback } from "./view/playback";
import type { GraphModel } from "./wire";
import { SceneMaker, type StartWorker } from "./worker/scene_maker";

/**
 * Fills an element with the widget: tools, drawing, panel, stepping bar. Pictures of large graphs are made in a
 * worker, where one can be started. Returns what takes it all away again.
 */
export function createView(
  host: HTMLElement,
  channel: Channel,
  startWorker: StartWorker = () => null,
): () => void {
  const shell = new Shell(channel);
  const { root, cleanup } = shell;
  const living = new Living(channel);
  /** Whether an update is about to be taken: once all of its traits have come. */
  let isTaking = false;
  /** What is shown anew once it is taken, each part once; null while none is. */
  let parts: Set<() => void> | null = null;
  let drawable: Drawable | null = null;
  let showsHelp = choices.help;

  const measure = browserMeasure();
  const opening = new Opening(channel);
  const drawing = new Drawing(
    {
      select: (id, module) => {
        if (!laboratory.takesClick(id)) select(id, module);
      },
      zoomed: (scale) => toolbar.setScale(scale),
      moved: () => {
        whatIf.place();
        laboratory.place();
      },
      escape: () =>
        giveUp() ||
        whatIf.leave() ||
        searchBox.clear() ||
        shell.leaveFull() ||
        (!isChosen() && way.leave()),
      pressed: (press) =>
        (drawable !== null && opening.pressed(drawable.graph, press)) ||
        pressToFold(folder, way, press),
      isInside: () => way.isInside,
      keyed: (key, node) =>
        (drawable !== null && opening.keyed(drawable.graph, key, node)) ||
        keyToFold(folder, way, key, node),
    },
    measure,
  );
  const laboratory = new Laboratory(drawing, channel);
  const progress = createProgress(() => drawing.focus());
  const whatIf: WhatIf = new WhatIf(
    channel,
    drawing,
    measure,
    {
      picked() {
        if (channel.get("selected") !== null || modules.current) select(null);
        else showDetails();
      },
      goTo(node) {
        select(node);
        folder.reveal(node, true);
      },
    },
    cleanup,
  );
  const folder = new Folder(drawing, measure, new SceneMaker(startWorker, measure), {
    changed: showFolding,
    shown(scene) {
      arrangement.suit(scene);
      whatIf.draw();
      toolbar.setFlow(scene?.nodes.some(({ shape }) => shape.card) ? scene.direction : null);
    },
    working: (work) => showWork(progress, work, giveUp),
    gaveUp(kept) {
      if (kept === null) {
        offerWork(progress, () => folder.again());
        return;
      }
      channel.set("direction", kept.direction);
      channel.set("constants", kept.source.constants);
    },
    failed: (error) => shell.showFault(error),
  });
  const modules = new ModuleSelection(drawing, folder, channel);
  const way = new Way(drawing, folder, {
    entering: () => select(null),
    moved: (titles) => toolbar.setWay(titles),
  });
  const searchBox = createSearchBox({
    find(query) {
      const shown = shownNow();
      const found = shown ? search(shown, query) : [];
      drawing.mark({ hits: query.trim() === "" ? null : new Set(found), hit: null });
      return found;
    },
    go(id) {
      drawing.mark({ hit: id });
      if (id === null) folder.keep();
      else folder.reveal(id, true, "peek");
    },
    left: () => drawing.focus(),
  });
  const saving = createSaveMenu(
    () => {
      const title = `Autograd graph of ${drawable?.words[2] ?? ""}`;
      return liveSvg([drawing.still()], root, title, viewBar.legend);
    },
    () => drawable?.graph.roots.map((output) => output.name) ?? [],
  );
  const viewBar = createViewBar(drawing, folder, channel, measure, () => redraw());
  const rankChoice = createRankChoice((rank) => channel.set("rank", rank));
  const toolbar = createToolbar(
    searchBox,
    {
      zoom: (factor) => drawing.sight.zoomBy(factor),
      fit: () => {
        drawing.sight.fit();
        refit.widthIs(drawing.sight.stage.width);
      },
      toggleConstants: () => channel.set("constants", !channel.get("constants")),
      toggleDerivatives() {
        choices.derivatives = !choices.derivatives;
        folder.forget(); // with or without them arrows have another length
        redraw();
      },
      toggleFull: () => shell.toggleFull(),
      toggleHelp,
      leaveTo: (depth) => way.leave(depth),
    },
    saving,
    { view: viewBar.element, colours: viewBar.colours, ranks: rankChoice.element },
  );
  const help = createHelp(shell.legend, shell.note, (direction) => {
    choices.direction = direction;
    channel.set("direction", direction);
    redraw();
  });
  const panel = new Panel(
    {
      goTo(id) {
        select(id);
        panel.focus();
      },
      goToModule(path) {
        select(null, [path]);
        panel.focus();
      },
      close() {
        if (showsHelp) toggleHelp();
        else if (channel.get("selected") === null && !modules.current) choices.follows = false;
        whatIf.close();
        select(null);
        drawing.focus();
      },
      rank() {
        const there = (channel.get("_ranks") ?? []).length > 1;
        const show = there ? (rank: number) => channel.set("rank", rank) : null;
        return { ranks: drawable?.graph.ranks ?? null, shown: channel.get("rank") ?? null, show };
      },
    },
    help.element,
    whatIf,
    () =>
      channel.get("_checked") === undefined
        ? null
        : {
            found: () => channel.get("_checked") ?? null,
            ask: (node) => channel.send({ kind: "check", node }),
          },
  );
  const findings = createFindingsList(
    (node) => {
      select(node);
      folder.reveal(node, true);
    },
    (node) => (drawable ? labelInModule(drawable.graph.nodes[node]) : `node ${node}`),
  );
  const playback = new Playback(drawing, living, channel, {
    drawable: () => drawable,
    show(node) {
      select(node);
      folder.reveal(node, true);
    },
    recorded() {
      showLegend();
      showColours();
    },
    moved: () => showDetails(),
  });
  const { stepper, bar } = playback;
  const arrangement = new Arrangement(drawing, panel.element);
  const refit = new Refit(drawing.sight, folder, () => {
    folder.forget();
    redraw();
    showSelected();
  });
  const corner = new Corner(drawing, [viewBar.key, playback.key]);
  drawing.element.append(progress.element, corner.element, bar.notes);
  shell.fill(
    host,
    toolbar.element,
    shell.faults,
    arrangement.body,
    laboratory.question,
    bar.element,
    findings.element,
    arrangement.bottom,
  );
  arrangement.follow(root, cleanup);
  cleanup.add(
    whenResized([root], () => {
      toolbar.tighten();
      refit.widthIs(root.clientWidth);
    }),
  );
  cleanup.add(() => refit.stop());
  shell.followFull(() => {
    arrangement.arrange();
    drawing.sight.fit(false);
    corner.place();
  });

  function select(id: number | null, module: readonly string[] | null = null): void {
    if (id !== null || module) choices.follows = true;
    modules.select(module);
    if (channel.get("selected") === id) showDetails();
    else channel.set("selected", id);
  }

  /** Whether anything is selected. */
  function isChosen(): boolean {
    return channel.get("selected") !== null || modules.current !== null;
  }

  function showFolding(): void {
    laboratory.place();
    way.update();
    viewBar.update();
    const drawn = drawing.scene?.nodes.length ?? 0;
    toolbar.setDrawn(drawn > 0 && drawn < (drawable?.autograd.nodes.length ?? 0) ? drawn : null);
    corner.place();
    showLegend();
    whatIf.draw();
    showDetails();
    toolbar.tighten();
  }

  function toggleHelp(): void {
    showsHelp = !showsHelp || isChosen();
    choices.help = showsHelp;
    toolbar.setHelp(showsHelp);
    if (showsHelp) select(null);
    showLegend();
    showDetails();
  }

  /** What is drawn of the graph. */
  function shownNow(): GraphModel | null {
    return drawable?.shown(channel.get("constants")) ?? null;
  }

  /** Gives up a picture that takes long; false if there is none. */
  function giveUp(): boolean {
    return progress.isVisible && folder.cancel();
  }

  const redraw = shell.guarded(() => {
    shell.showPythonFault();
    const { graph, was } = living.take();
    const constants = channel.get("constants");
    const isOther = graph !== drawable?.graph;
    if (isOther && !was) modules.select(null);
    if (isOther && was === undefined)
      refit.madeFor(drawing.canvas.clientWidth > 0 ? root.clientWidth : 0);
    const { torchNames } = viewBar;
    if (!drawable?.isOf(graph, torchNames)) drawable = new Drawable(graph, torchNames);
    whatIf.read(graph);
    const { isBoard } = drawable;
    const derivatives = isBoard && choices.derivatives;
    toolbar.setDerivatives(isBoard ? derivatives : null);
    drawing.mark({ derivatives });
    toolbar.setConstants(drawsConstants(graph) ? constants : null);
    const chosen = channel.get("direction");
    const asked = chosen === "auto" ? choices.direction : chosen;
    help.setDirection(asked, graph.static);
    const shown = drawable.shown(constants);
    const source = { given: channel.raw("graph"), constants, torchNames };
    if (isOther && was !== null) drawing.mark({ progress: null }); // of the graph before, whose edges had other places
    if (isOther && was !== undefined) folder.follow(shown, graph, source, was);
    else {
      const room = { ...arrangement.roomFor(graph), derivatives };
      folder.show(shown, drawable.direction(asked, room, measure), graph, source, room);
    }
    laboratory.update(graph);
    stepper.read(drawable.autograd);
    toolbar.setCrumb(...drawable.words);
    say(drawing.canvas, "aria-label", drawable.label);
    // Other numbers leave every size as it is; to ask for one, the page would be laid out.
    if (!isOther || was !== null) arrangement.arrange();
    showLegend();
    searchBox.refresh(drawable.autograd.nodes.length);
  });

  const mark = shell.guarded(() => {
    const state = channel.get("state");
    drawing.mark(seenMarks(state));
    write(shell.note, state?.note ?? "");
    showLegend();
    playback.update();
  });

  const showSteps = shell.guarded(() => stepper.read(drawable?.autograd ?? null));

  /** Does something when a trait changes; of an update, which changes many, once when all of them are there. */
  function on(trait: keyof Traits, changed: () => void): void {
    shell.on(trait, () => (living.isBehind ? takeUpdate() : changed()));
  }

  function takeUpdate(): void {
    if (isTaking) return;
    isTaking = true;
    queueMicrotask(() => {
      isTaking = false;
      if (!root.isConnected && !living.isBehind) return;
      parts = new Set();
      redraw();
      mark();
      stepper.answered();
      drawing.mark({ selected: channel.get("selected") });
      showRank();
      const shown = parts;
      parts = null;
      for (const part of shown) part();
    });
  }

  /** A part that follows from others: shown at once or, while an update is taken, once at its end. */
  function following(show: () => void): () => void {
    const part = shell.guarded(show);
    return () => (parts ? parts.add(part) : part());
  }

  const showLegend = following(() => {
    const shown = shownNow();
    // It stands in the panel: what nobody sees is not written.
    if (!shown || !drawable || !showsHelp) return;
    const { nodes } = drawable.size;
    shell.legend.replaceChildren(...drawingEntries(drawing, shown, nodes, channel.get("state")));
  });

  const showColours = following(() => {
    viewBar.update();
    corner.place();
    if (drawable?.graph.ranks) toolbar.tighten();
  });

  const showDetails = following(() => {
    if (!drawable) return;
    const { progress } = drawing;
    const { current } = modules;
    const selected = channel.get("selected");
    const { running } = playback;
    const isAsked = selected !== null || current !== null || showsHelp || whatIf.isOpen;
    const follows = choices.follows && running !== null && !arrangement.isNarrow;
    const shownNode = selected ?? (showsHelp ? null : running);
    const shows = isAsked || follows;
    // What nobody sees is not written: to keep its place the page would be laid out.
    if (shows || arrangement.hasPanel)
      panel.update(drawable.graph, shownNode, channel.get("details"), progress, current);
    arrangement.setPanel(shows);
  });

  const showSelected = shell.guarded(() => {
    const selected = channel.get("selected");
    if (selected !== null) modules.select(null);
    drawing.mark({ selected });
    whatIf.select(selected);
    showDetails();
    if (selected !== null) folder.reveal(selected);
  });

  const showRank = shell.guarded(() => {
    const ranks = drawable?.graph.ranks ?? null;
    rankChoice.update(ranks, channel.get("rank") ?? null, channel.get("_ranks") ?? []);
    showColours();
    showDetails();
  });

  const showFindings = shell.guarded(() => {
    viewBar.answered();
    findings.update(channel.get("findings") ?? null);
  });

  cleanup.add(() => drawing.destroy());
  cleanup.add(() => folder.destroy());
  cleanup.add(() => stepper.destroy());
  cleanup.add(() => panel.destroy());
  on("graph", () => {
    redraw();
    mark();
    showSelected();
  });
  on("_values", () => {
    redraw();
    mark();
  });
  on("_update", takeUpdate);
  for (const trait of ["_knobs", "_differences", "_quiz", "score"] as const)
    on(trait, () => (living.isRoomed ? laboratory.update(drawable?.graph ?? null) : redraw()));
  on("_quiz", () => viewBar.update());
  on("direction", redraw);
  on("constants", redraw);
  on("state", () => {
    stepper.answered();
    mark();
  });
  on("steps", showSteps);
  on("run", showSteps);
  on("cursor", () => stepper.follow());
  on("_inner", () => stepper.follow());
  on("transport", () => {
    stepper.answered();
    playback.follow();
  });
  on("selected", showSelected);
  on("details", showDetails);
  for (const trait of ["edits", "what_if", "_shares"] as const)
    on(trait, () => {
      if (trait === "edits") whatIf.edited();
      else whatIf.update();
      playback.update();
      showDetails();
    });
  on("_checked", showDetails);
  on("_memory", () => {
    viewBar.update();
    showDetails();
  });
  on("_dtypes", () => viewBar.update());
  on("findings", showFindings);
  on("rank", showRank);
  on("_ranks", showRank);
  on("_fault", () => {
    stepper.answered();
    viewBar.answered();
    shell.showPythonFault();
  });

  ownKeys(
    root,
    {
      f: () => drawing.sight.fit(),
      "/": () => searchBox.focus(),
      "?": toggleHelp,
      Escape: () => (drawing.hasFocus ? false : giveUp() || shell.leaveFull() || drawing.focus()),
    },
    cleanup,
  );

  toolbar.setHelp(showsHelp);
  redraw();
  mark();
  showSelected();
  showFindings();
  showRank();
  return () => cleanup.run();
}
