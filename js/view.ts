import { choices } from "./bars/choices";
import { Corner } from "./bars/corner";
import { createFindingsList, labelInModule } from "./bars/findings_list";
import { createProgress } from "./bars/progress";
import { createRankChoice } from "./bars/rank_choice";
import { Refit } from "./bars/refit";
import { search } from "./bars/search";
import { createSearchBox } from "./bars/searchbox";
import { Shell } from "./bars/shell";
import { createToolbar } from "./bars/toolbar";
import { createViewBar } from "./bars/view_bar";
import { offerWork, showWork } from "./bars/work_progress";
import type { Channel } from "./channel";
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
import { drawsConstants } from "./scene/card";
import { browserMeasure } from "./text/measure";
import { Drawable } from "./view/drawable";
import { createFollowing } from "./view/following";
import { Playback } from "./view/playback";
import { createSidePanel } from "./view/side_panel";
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
  let drawable: Drawable | null = null;

  const measure = browserMeasure();
  const opening = new Opening(channel);
  const drawing = new Drawing(
    {
      select: (id, module) => {
        if (!laboratory.takesClick(id)) side.select(id, module);
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
        (!side.isChosen() && way.leave()),
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
      picked: () => side.select(null),
      goTo,
    },
    cleanup,
  );
  const folder = new Folder(drawing, measure, new SceneMaker(startWorker, measure), {
    changed: showFolding,
    shown(scene) {
      side.arrangement.suit(scene);
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
  const way = new Way(drawing, folder, {
    entering: () => side.select(null),
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
  const following = createFollowing(shell, living, () => {
    redraw();
    mark();
    stepper.answered();
    drawing.mark({ selected: channel.get("selected") });
    showRank();
  });
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
      toggleHelp: () => side.toggleHelp(),
      leaveTo: (depth) => way.leave(depth),
    },
    saving,
    { view: viewBar.element, colours: viewBar.colours, ranks: rankChoice.element },
  );
  const side = createSidePanel(shell, channel, drawing, folder, whatIf, following, {
    drawable: () => drawable,
    running: () => playback.running,
    turned: () => redraw(),
    helped: (shows) => toolbar.setHelp(shows),
  });
  const { arrangement } = side;
  const findings = createFindingsList(goTo, (node) =>
    drawable ? labelInModule(drawable.graph.nodes[node]) : `node ${node}`,
  );
  const playback = new Playback(drawing, living, channel, {
    drawable: () => drawable,
    show: goTo,
    recorded() {
      side.updateLegend();
      showColours();
    },
    moved: () => side.update(),
  });
  const { stepper, bar } = playback;
  const refit = new Refit(drawing.sight, folder, () => {
    folder.forget();
    redraw();
    showSelected();
  });
  const corner = new Corner(drawing, [viewBar.key, playback.key]);
  drawing.foot.prepend(corner.element);
  drawing.element.append(progress.element, bar.notes);
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
  cleanup.add(whenResized([drawing.element], () => corner.place()));
  cleanup.add(() => refit.stop());
  shell.followFull(() => {
    arrangement.arrange();
    drawing.sight.fit(false);
  });

  /** Selects a node and moves to it. */
  function goTo(node: number): void {
    side.select(node);
    folder.reveal(node, true);
  }

  function showFolding(): void {
    laboratory.place();
    way.update();
    viewBar.update();
    const drawn = drawing.scene?.nodes.length ?? 0;
    toolbar.setDrawn(drawn > 0 && drawn < (drawable?.autograd.nodes.length ?? 0) ? drawn : null);
    corner.place();
    side.updateLegend();
    whatIf.draw();
    side.update();
    toolbar.tighten();
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
    if (isOther && !was) side.modules.select(null);
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
    side.setDirection(asked, graph.static);
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
    side.updateLegend();
    searchBox.refresh(drawable.autograd.nodes.length);
  });

  const mark = shell.guarded(() => {
    const state = channel.get("state");
    drawing.mark(seenMarks(state));
    write(shell.note, state?.note ?? "");
    side.updateLegend();
    playback.update();
  });

  const showSteps = shell.guarded(() => stepper.read(drawable?.autograd ?? null));

  const showColours = following.part(() => {
    viewBar.update();
    corner.place();
    if (drawable?.graph.ranks) toolbar.tighten();
  });

  const showSelected = shell.guarded(() => {
    const selected = channel.get("selected");
    if (selected !== null) side.modules.select(null);
    drawing.mark({ selected });
    whatIf.select(selected);
    side.update();
    if (selected !== null) folder.reveal(selected);
    corner.place();
  });

  const showRank = shell.guarded(() => {
    const ranks = drawable?.graph.ranks ?? null;
    rankChoice.update(ranks, channel.get("rank") ?? null, channel.get("_ranks") ?? []);
    showColours();
    side.update();
  });

  const showFindings = shell.guarded(() => {
    viewBar.answered();
    findings.update(channel.get("findings") ?? null);
  });

  cleanup.add(() => drawing.destroy());
  cleanup.add(() => folder.destroy());
  cleanup.add(() => stepper.destroy());
  cleanup.add(() => side.destroy());
  const { on } = following;
  on("graph", () => {
    redraw();
    mark();
    showSelected();
  });
  on("_values", () => {
    redraw();
    mark();
  });
  on("_update", following.take);
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
  on("details", side.update);
  for (const trait of ["edits", "what_if", "_shares"] as const)
    on(trait, () => {
      if (trait === "edits") whatIf.edited();
      else whatIf.update();
      playback.update();
      side.update();
    });
  on("_checked", side.update);
  on("_memory", () => {
    viewBar.update();
    side.update();
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
      "?": () => side.toggleHelp(),
      Escape: () => (drawing.hasFocus ? false : giveUp() || shell.leaveFull() || drawing.focus()),
    },
    cleanup,
  );

  toolbar.setHelp(choices.help);
  redraw();
  mark();
  showSelected();
  showFindings();
  showRank();
  return () => cleanup.run();
}
