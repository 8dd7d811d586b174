import type { Channel, Traits } from "./channel";
import { createCallout } from "./controls/callout";
import { Refit } from "./controls/refit";
import { Shell } from "./controls/shell";
import { element, say, write } from "./dom/element";
import { ownKeys } from "./dom/own_keys";
import { whenResized } from "./dom/when_resized";
import { seenMarks } from "./paint/marks";
import { browserMeasure, type Measure } from "./text/measure";
import { GraphControls } from "./view/graph_controls";
import { createFollowing, type Following } from "./view/live_graph";
import { Picture, type Request } from "./view/picture";
import { Playback } from "./view/playback";
import { SidePanel } from "./view/side_panel";
import { type PartView, VIEW_PARTS, type ViewPart } from "./view/view_part";
import type { StartWorker } from "./worker/scene_maker";

/** Fill an element with the widget, with a worker for large graphs. Returns a function that removes everything. */
export function createView(
  host: HTMLElement,
  channel: Channel,
  startWorker: StartWorker = () => null,
): () => void {
  const view = new GraphView(channel, startWorker);
  view.fill(host);
  view.follow();
  view.start();
  return () => view.destroy();
}

/** The picture of one graph with its controls. Data flows one way: traits ► request ► picture ► words about it. */
class GraphView {
  private readonly shell: Shell<Traits>;
  private readonly picture: Picture;
  private readonly parts: readonly ViewPart[];
  private readonly following: Following;
  private readonly controls: GraphControls;
  private readonly side: SidePanel;
  private readonly playback: Playback;
  private readonly refit: Refit;

  private readonly callout: HTMLElement;

  readonly redraw: () => void;
  private readonly mark: () => void;
  private readonly showSelected: () => void;
  private readonly showColours: () => void;

  constructor(
    private readonly channel: Channel,
    startWorker: StartWorker,
  ) {
    const measure = browserMeasure();
    this.shell = new Shell(channel);
    const { shell } = this;
    this.callout = createCallout(shell.root, shell.cleanup);
    this.redraw = shell.guarded(() => this.drawGraph());
    this.mark = shell.guarded(() => this.markState());
    this.showSelected = shell.guarded(() => this.select());
    this.picture = this.createPicture(startWorker, measure);
    const { drawing, folds, live } = this.picture;
    const goTo = (node: number) => this.goTo(node);
    this.parts = this.createParts(measure);
    this.following = createFollowing(shell, live, () => this.takeUpdate());
    this.showColours = this.following.part(() => this.colour());
    const tools = this.parts.flatMap(({ tool }) => tool ?? []);
    this.controls = new GraphControls(this.picture, shell, channel, measure, tools, {
      redraw: () => this.redraw(),
      fitted: () => this.refit.widthIs(drawing.viewport.stage.width),
      goTo,
      toggleHelp: () => this.side.toggleHelp(),
    });
    this.side = new SidePanel(shell, channel, this.picture, this.parts, this.following, {
      running: () => this.playback.running,
      turned: () => this.redraw(),
      helped: (shows) => this.controls.toolbar.set("help", shows),
    });
    this.playback = new Playback(drawing, live, channel, this.parts, {
      drawable: () => this.picture.drawable,
      show: goTo,
      recorded: () => {
        this.showColours();
        this.side.updateLegend();
      },
      moved: () => {
        this.each((part) => part.stepped?.());
        this.side.update();
      },
    });
    this.refit = new Refit(drawing.viewport, folds, () => {
      folds.forget();
      this.redraw();
      this.showSelected();
    });
  }

  private createParts(measure: Measure): ViewPart[] {
    const { channel, shell, picture } = this;
    const view: PartView = {
      channel,
      drawing: picture.drawing,
      measure,
      cleanup: shell.cleanup,
      graph: () => picture.drawable?.graph ?? null,
      goTo: (node) => this.goTo(node),
      deselect: () => this.side.select(null),
    };
    return VIEW_PARTS.map((create) => create(view));
  }

  private each(act: (part: ViewPart) => void): void {
    for (const part of this.parts) this.shell.guarded(() => act(part))();
  }

  private createPicture(startWorker: StartWorker, measure: Measure): Picture {
    return new Picture(this.channel, measure, startWorker, () => this.parts, {
      select: (id, module) => {
        if (!this.parts.some((part) => part.clicked?.(id))) this.side.select(id, module);
      },
      zoomed: (scale) => this.controls.toolbar.setScale(scale),
      moved: () => this.each((part) => part.moved?.()),
      escape: () =>
        this.parts.some((part) => part.left?.()) ||
        this.controls.search.clear() ||
        this.side.closeHelp() ||
        this.shell.leaveFull() ||
        (!this.side.isChosen() && this.picture.breadcrumbs.leave()),
      folded: () => this.showFolding(),
      shown: (scene) => {
        this.side.arrangement.suit(scene);
        this.each((part) => part.drawn?.());
      },
      entering: () => this.side.select(null),
      entered: (titles) => this.controls.toolbar.setBreadcrumbs(titles),
      failed: (error) => this.shell.showFault(error),
    });
  }

  fill(host: HTMLElement): void {
    const { shell, picture, controls, parts, playback, side, refit } = this;
    const { root, cleanup } = shell;
    const { drawing } = picture;
    const { arrangement } = side;
    shell.fill(
      host,
      controls.toolbar.element,
      shell.faults,
      element("div", "gw-key-strip", [
        controls.view.answer,
        controls.view.key,
        controls.view.widthKey,
        playback.key,
        this.callout,
      ]),
      arrangement.body,
      ...parts.flatMap(({ question }) => question ?? []),
      playback.bar.element,
      playback.bar.notes,
      ...parts.flatMap(({ strip }) => strip ?? []),
      controls.findings.element,
      arrangement.bottom,
    );
    arrangement.follow(root, cleanup);
    const resized = () => {
      controls.toolbar.tighten();
      refit.widthIs(root.clientWidth);
    };
    cleanup.add(whenResized([root], resized));
    shell.followFull((full) => {
      arrangement.arrange();
      drawing.viewport.fill(full);
    });
    const keys = {
      f: () => drawing.viewport.fit(),
      "/": () => controls.search.focus(),
      "?": () => side.toggleHelp(),
      Escape: () =>
        drawing.hasFocus
          ? false
          : side.closeHelp() || picture.giveUp() || shell.leaveFull() || drawing.focus(),
    };
    ownKeys(root, keys, cleanup);
  }

  /** Follow the traits: per trait, what it changes. */
  follow(): void {
    const { following, picture, playback, controls, side } = this;
    const { stepper } = playback;
    const { redraw, mark, showSelected } = this;
    const makeRoom = () => {
      if (!picture.live.isRoomed) redraw();
    };
    const showSteps = this.shell.guarded(() => stepper.read(picture.drawable?.autograd ?? null));
    const changed: Partial<Record<keyof Traits, (() => void)[]>> = {
      model: [redraw, mark, showSelected],
      _values: [redraw, mark],
      _update: [following.take],
      _number_inputs: [makeRoom],
      _quiz: [makeRoom],
      direction: [redraw],
      constants: [redraw],
      state: [() => stepper.answered(), mark],
      _steps: [showSteps],
      run: [showSteps],
      cursor: [() => stepper.follow()],
      _inner: [() => stepper.follow()],
      transport: [() => stepper.answered(), () => playback.follow()],
      selected: [showSelected],
      _box: [this.shell.guarded(() => this.selectBox())],
      details: [side.update],
      _checked: [side.update],
      _memory: [() => controls.view.update(), side.update],
      _dtypes: [() => controls.view.update()],
      _overlays: [() => controls.view.update()],
      _findings: [this.shell.guarded(() => controls.showFindings())],
      _fault: [
        () => stepper.answered(),
        () => controls.view.answered(),
        () => this.shell.showPythonFault(),
      ],
    };
    this.followParts(new Set(Object.keys(changed)));
    for (const [trait, actions] of Object.entries(changed))
      for (const action of actions) following.on(trait as keyof Traits, action);
  }

  /** Follow the traits of the features, before the core does; the words around the picture follow all but the core's. */
  private followParts(cores: ReadonlySet<string>): void {
    const { following, parts, playback, side, controls } = this;
    for (const part of parts)
      for (const trait of part.traits ?? [])
        following.on(
          trait,
          this.shell.guarded(() => part.update?.()),
        );
    const around = () => {
      playback.update();
      side.update();
      this.showColours();
      controls.toolbar.tighten();
    };
    for (const trait of new Set(parts.flatMap(({ traits = [] }) => traits)))
      if (!cores.has(trait)) following.on(trait, around);
  }

  /** Show everything for the first time. */
  start(): void {
    this.controls.toolbar.set("help", false);
    this.redraw();
    this.mark();
    this.showSelected();
    this.selectBox();
    this.shell.guarded(() => this.controls.showFindings())();
  }

  destroy(): void {
    const { side, playback, picture, refit, shell } = this;
    side.destroy();
    playback.stepper.destroy();
    picture.destroy();
    refit.stop();
    shell.cleanup.run();
  }

  private drawGraph(): void {
    this.shell.showPythonFault();
    const request = this.picture.read(this.controls.view.torchNames);
    this.prepare(request);
    this.picture.draw(request, this.side.arrangement.roomFor(request.drawable.graph));
    this.describe(request);
  }

  /** Before a picture: set what it depends on besides the graph. */
  private prepare(request: Request): void {
    const { picture, side, shell } = this;
    const { was, isOther, direction } = request;
    const { graph } = request.drawable;
    if (isOther && !was) side.modules.select(null);
    if (isOther && was === undefined)
      this.refit.madeFor(picture.drawing.canvas.clientWidth > 0 ? shell.root.clientWidth : 0);
    this.controls.show(request);
    side.setDirection(direction, graph.static);
  }

  /** Show words about the graph, once its picture is made or asked for. */
  private describe(request: Request): void {
    const { drawable, was, isOther } = request;
    const { picture, playback, side } = this;
    // It speaks of gradients.
    if (drawable.graph.static) this.callout.remove();
    this.each((part) => part.update?.());
    playback.stepper.read(drawable.autograd);
    say(picture.drawing.canvas, "aria-label", drawable.label);
    // New numbers keep all sizes, and measuring would force a layout.
    if (!isOther || was !== null) side.arrangement.arrange();
    side.updateLegend();
    this.controls.search.refresh(drawable.autograd.nodes.length);
  }

  /** Once an update has changed many traits. */
  private takeUpdate(): void {
    this.redraw();
    this.mark();
    this.playback.stepper.answered();
    this.picture.drawing.mark({ selected: this.channel.get("selected") });
    this.showColours();
    this.side.update();
  }

  private markState(): void {
    const state = this.channel.get("state");
    this.picture.drawing.mark(seenMarks(state, this.picture.drawable?.graph.nodes ?? []));
    write(this.shell.note, state?.note ?? "");
    this.playback.update();
    this.showColours();
    this.side.updateLegend();
  }

  private colour(): void {
    this.controls.view.update();
  }

  private showFolding(): void {
    this.each((part) => part.drawn?.());
    this.each((part) => part.moved?.());
    this.picture.breadcrumbs.update();
    this.controls.view.update();
    this.controls.showDrawn();
    this.side.updateLegend();
    this.side.update();
    this.controls.toolbar.tighten();
  }

  private select(): void {
    const selected = this.channel.get("selected");
    if (selected !== null) this.side.modules.select(null);
    this.picture.drawing.mark({ selected });
    this.side.update();
    if (selected !== null) this.picture.folds.reveal(selected);
  }

  /** Select the module that the program asked for. */
  private selectBox(): void {
    const box = this.channel.get("_box");
    if (box) this.side.select(null, [box.path]);
  }

  /** Select a node and move to it. */
  private goTo(node: number): void {
    this.side.select(node);
    this.picture.folds.reveal(node);
  }
}
