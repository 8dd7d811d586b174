import type { Channel } from "../channel";
import { choices } from "../controls/choices";
import { createProgress, offerWork, showWork } from "../controls/progress";
import { Breadcrumbs, keyToFold, pressToFold } from "../interact/breadcrumbs";
import { Drawing, type DrawingEvents } from "../interact/drawing";
import { FoldController } from "../interact/fold_controller";
import type { Scene } from "../scene/scene";
import type { Room } from "../scene/views";
import type { Measure } from "../text/measure";
import type { DirectionChoice, GraphModel } from "../wire";
import { SceneMaker, type StartWorker } from "../worker/scene_maker";
import { Drawable } from "./drawable";
import { LiveGraph } from "./live_graph";
import type { ViewPart } from "./view_part";

/** The picture that the traits and the reader's choices request. */
export interface Request {
  drawable: Drawable;
  /** Per node, its id in the graph before; null if only numbers changed, undefined for an unrelated graph. */
  was: readonly (number | null)[] | null | undefined;
  /** Whether the graph differs from the drawn one, at least in its numbers. */
  isOther: boolean;
  constants: boolean;
  torchNames: boolean;
  direction: DirectionChoice;
  /** Whether local derivatives are on the edges; null if the graph is too large. */
  derivatives: boolean | null;
}

interface PictureEvents extends Pick<DrawingEvents, "select" | "zoomed" | "moved" | "escape"> {
  /** The folding or its picture changed. */
  folded(): void;
  /** A first view is about to be drawn. */
  shown(scene: Scene | null): void;
  /** The reader is about to enter a box. */
  entering(): void;
  /** The titles of the entered boxes, outermost first. */
  entered(titles: readonly string[]): void;
  failed(error: unknown): void;
}

/** One graph, folded and drawn. */
export class Picture {
  readonly live: LiveGraph;
  readonly drawing: Drawing;
  readonly folds: FoldController;
  readonly breadcrumbs: Breadcrumbs;
  /** The graph that is drawn; null before the first one. */
  drawable: Drawable | null = null;
  private readonly progress = createProgress(() => this.drawing.focus());

  constructor(
    private readonly channel: Channel,
    private readonly measure: Measure,
    startWorker: StartWorker,
    private readonly parts: () => readonly ViewPart[],
    private readonly events: PictureEvents,
  ) {
    this.live = new LiveGraph(channel);
    this.drawing = new Drawing(this.drawingEvents(), measure);
    const maker = new SceneMaker(startWorker, measure);
    this.folds = new FoldController(this.drawing, measure, maker, {
      changed: () => events.folded(),
      shown: (scene) => events.shown(scene),
      working: (work) => showWork(this.progress, work, () => this.giveUp()),
      gaveUp: (kept) => {
        if (kept === null) offerWork(this.progress, () => this.folds.again());
        else {
          channel.set("direction", kept.direction);
          channel.set("constants", kept.source.constants);
        }
      },
      failed: (error) => events.failed(error),
    });
    this.breadcrumbs = new Breadcrumbs(this.drawing, this.folds, {
      entering: () => events.entering(),
      moved: (titles) => events.entered(titles),
    });
    this.drawing.element.append(this.progress.element);
  }

  /** The graph as it is drawn, with or without constants. */
  get shown(): GraphModel | null {
    return this.drawable?.shown(this.channel.get("constants")) ?? null;
  }

  /** Read the traits: which graph to draw, and how. */
  read(torchNames: boolean): Request {
    const { channel } = this;
    const { graph, was } = this.live.take();
    const isOther = graph !== this.drawable?.graph;
    if (!this.drawable?.isOf(graph, torchNames)) this.drawable = new Drawable(graph, torchNames);
    const { drawable } = this;
    const chosen = channel.get("direction");
    return {
      drawable,
      was,
      isOther,
      constants: channel.get("constants"),
      torchNames,
      direction: chosen === "auto" ? choices.direction : chosen,
      derivatives: drawable.isBoard ? choices.derivatives : null,
    };
  }

  draw(request: Request, stage: Room): void {
    const { drawable, was, isOther, constants, torchNames } = request;
    const { drawing, folds, channel } = this;
    const { graph } = drawable;
    const derivatives = request.derivatives === true;
    drawing.mark({ derivatives });
    // The recording has the edge indices of the graph before.
    if (isOther && was !== null) drawing.mark({ progress: null });
    const shown = drawable.shown(constants);
    const source = { given: channel.raw("model"), constants, torchNames };
    if (isOther && was !== undefined) folds.follow(shown, graph, source, was);
    else {
      const room = { ...stage, derivatives };
      const direction = drawable.direction(request.direction, room, this.measure);
      folds.show(shown, direction, graph, source, room);
    }
  }

  /** Cancel a slow picture; false if there was none. */
  giveUp(): boolean {
    return this.progress.isVisible && this.folds.cancel();
  }

  destroy(): void {
    this.folds.destroy();
    this.drawing.destroy();
  }

  /** Whether a feature's part takes a press or a key. */
  private isTaken(take: (part: ViewPart, graph: GraphModel) => boolean | undefined): boolean {
    const { drawable } = this;
    return drawable !== null && this.parts().some((part) => take(part, drawable.graph));
  }

  private drawingEvents(): DrawingEvents {
    const { events } = this;
    return {
      select: (id, module) => events.select(id, module),
      zoomed: (scale) => events.zoomed(scale),
      moved: (view) => events.moved?.(view),
      escape: () => this.giveUp() || events.escape(),
      pressed: (press) =>
        this.isTaken((part, graph) => part.pressed?.(graph, press)) ||
        pressToFold(this.folds, this.breadcrumbs, press),
      isInside: () => this.breadcrumbs.isInside,
      keyed: (key, node) =>
        this.isTaken((part, graph) => part.keyed?.(graph, key, node)) ||
        keyToFold(this.folds, this.breadcrumbs, key, node),
    };
  }
}
