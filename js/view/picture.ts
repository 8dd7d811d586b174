import { choices } from "../bars/choices";
import { createProgress } from "../bars/progress";
import { offerWork, showWork } from "../bars/work_progress";
import type { Channel } from "../channel";
import { Drawing } from "../interact/drawing";
import type { DrawingEvents } from "../interact/drawing_events";
import { Folder } from "../interact/folder";
import { keyToFold, pressToFold } from "../interact/gestures";
import { Opening } from "../interact/opening";
import { Way } from "../interact/way";
import { Living } from "../laboratory/living";
import type { Scene } from "../scene/scene";
import type { Room } from "../scene/views";
import type { Measure } from "../text/measure";
import type { DirectionChoice, GraphModel } from "../wire";
import { SceneMaker, type StartWorker } from "../worker/scene_maker";
import { Drawable } from "./drawable";

/** The picture that the traits and the reader's choices ask for. */
export interface Request {
  drawable: Drawable;
  /** Per node, its id in the graph before; null where only numbers changed, undefined for an unrelated graph. */
  was: readonly (number | null)[] | null | undefined;
  /** Whether the graph differs from the one that is drawn, in its numbers at least. */
  isOther: boolean;
  constants: boolean;
  torchNames: boolean;
  direction: DirectionChoice;
  /** Whether local derivatives are written on the edges; null where the graph is too large for that. */
  derivatives: boolean | null;
}

interface PictureEvents extends Pick<DrawingEvents, "select" | "zoomed" | "moved" | "escape"> {
  /** The folding changed, or what is drawn of it. */
  folded(): void;
  /** A first view is about to be drawn. */
  shown(scene: Scene | null): void;
  /** The reader is about to enter a box. */
  entering(): void;
  /** The titles of the boxes that the reader entered, the outermost first. */
  entered(titles: readonly string[]): void;
  failed(error: unknown): void;
}

/** One graph, folded and drawn. */
export class Picture {
  readonly live: Living;
  readonly drawing: Drawing;
  readonly folder: Folder;
  readonly way: Way;
  /** The graph that is drawn; null before the first one. */
  drawable: Drawable | null = null;
  private readonly progress = createProgress(() => this.drawing.focus());

  constructor(
    private readonly channel: Channel,
    private readonly measure: Measure,
    startWorker: StartWorker,
    private readonly events: PictureEvents,
  ) {
    this.live = new Living(channel);
    this.drawing = new Drawing(this.drawingEvents(new Opening(channel)), measure);
    const maker = new SceneMaker(startWorker, measure);
    this.folder = new Folder(this.drawing, measure, maker, {
      changed: () => events.folded(),
      shown: (scene) => events.shown(scene),
      working: (work) => showWork(this.progress, work, () => this.giveUp()),
      gaveUp: (kept) => {
        if (kept === null) offerWork(this.progress, () => this.folder.again());
        else {
          channel.set("direction", kept.direction);
          channel.set("constants", kept.source.constants);
        }
      },
      failed: (error) => events.failed(error),
    });
    this.way = new Way(this.drawing, this.folder, {
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

  /** Fold the graph, make its scene and paint it. */
  draw(request: Request, stage: Room): void {
    const { drawable, was, isOther, constants, torchNames } = request;
    const { drawing, folder, channel } = this;
    const { graph } = drawable;
    const derivatives = request.derivatives === true;
    drawing.mark({ derivatives });
    // The recording belongs to the graph before, whose edges had other indices.
    if (isOther && was !== null) drawing.mark({ progress: null });
    const shown = drawable.shown(constants);
    const source = { given: channel.raw("graph"), constants, torchNames };
    if (isOther && was !== undefined) folder.follow(shown, graph, source, was);
    else {
      const room = { ...stage, derivatives };
      const direction = drawable.direction(request.direction, room, this.measure);
      folder.show(shown, direction, graph, source, room);
    }
  }

  /** Give up a picture that takes long; false if there is none. */
  giveUp(): boolean {
    return this.progress.isVisible && this.folder.cancel();
  }

  destroy(): void {
    this.folder.destroy();
    this.drawing.destroy();
  }

  private drawingEvents(opening: Opening): DrawingEvents {
    const { events } = this;
    return {
      select: (id, module) => events.select(id, module),
      zoomed: (scale) => events.zoomed(scale),
      moved: (view) => events.moved?.(view),
      escape: () => this.giveUp() || events.escape(),
      pressed: (press) =>
        (this.drawable !== null && opening.pressed(this.drawable.graph, press)) ||
        pressToFold(this.folder, this.way, press),
      isInside: () => this.way.isInside,
      keyed: (key, node) =>
        (this.drawable !== null && opening.keyed(this.drawable.graph, key, node)) ||
        keyToFold(this.folder, this.way, key, node),
    };
  }
}
