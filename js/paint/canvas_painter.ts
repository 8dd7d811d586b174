import { element } from "../dom/element";
import type { SceneFrame } from "../scene/frame";
import type { Box } from "../scene/grid";
import type { Scene } from "../scene/scene";
import { type Size, seen, type View } from "../scene/views";
import { type Picture2D, paintHeads } from "./canvas_picture";
import { FAR } from "./level_of_detail";
import { Raster } from "./raster";

/** Drawing time per frame, ms; showing it takes about three times as long. */
const SLICE_MS = { least: 1, most: 4 };
/** Longer frames are too slow, ms. */
const SLOW_MS = 28;
/** Up to this scaling, the existing picture is reused until the view rests. */
const MOST_SCALING = 1.7;
/** Time for which the view must rest before it is redrawn at its scale, ms. */
const STILL_MS = 90;
/** The margin drawn around the visible part, and the margin below which more is drawn, as shares of the stage. */
const AROUND = 0.4;
const LEFT = 0.12;
/** The most device px of one canvas, at four bytes each. */
const MOST_PIXELS = 9e6;
/** The limits of the overview, which fills gaps until they are drawn: its longer side and its area, px. */
const WHOLE = { side: 2048, area: 1.5e6 };

/** Draw a scene on a canvas: while moving, copy earlier drawings and draw the missing parts bit by bit. */
export class CanvasPainter {
  readonly element = element("canvas", { class: "gw-raster", "aria-hidden": "true" });
  private context: CanvasRenderingContext2D | null | undefined;
  private picture: Picture2D | null = null;
  private sharp: Raster | null = null;
  private whole: Raster | null = null;
  /** The raster in progress: of the visible part, or of everything. */
  private next: Raster | null = null;
  private nextWhole: Raster | null = null;
  private last: View | null = null;
  private movedAt = 0;
  private changedAt = 0;
  private paintedAt = 0;
  /** Drawing time for this frame, ms; less on a slow screen. */
  private slice = SLICE_MS.most;
  private isCopied = false;
  private module: readonly string[] | null = null;

  /** Null without a canvas. */
  get pen(): CanvasRenderingContext2D | null {
    if (this.context === undefined) this.context = this.element.getContext("2d");
    return this.context;
  }

  /** Draw this picture from now on. The old marks of the same scene stay until then. */
  show(picture: Picture2D): void {
    if (this.picture) this.changedAt = performance.now();
    if (picture.scene !== this.picture?.scene) {
      this.sharp = null;
      this.whole = null;
      this.next = null;
      this.nextWhole = null;
    }
    this.picture = picture;
  }

  /** Whether the view moved a moment ago. */
  get isMoving(): boolean {
    return performance.now() - this.movedAt < STILL_MS;
  }

  /** Note the view's position. */
  look(view: View): void {
    const { last } = this;
    if (last && last.k === view.k && last.x === view.x && last.y === view.y) return;
    if (last) this.movedAt = performance.now();
    this.last = { ...view };
    this.isCopied = false;
  }

  /** Whether all visible parts are drawn, perhaps at another scale. */
  isReady(view: View, stage: Size): boolean {
    const { sharp, picture } = this;
    if (!picture || sharp?.picture !== picture) return false;
    return (
      isNear(sharp.view.k, view.k) && sharp.covers(inScene(seen(view, stage, 0), picture.scene))
    );
  }

  /** Continue drawing this view; true if more is left. */
  paint(
    view: View,
    stage: Size,
    ratio: number,
    heads: readonly SceneFrame[],
    module: readonly string[] | null,
  ): boolean {
    const { picture } = this;
    if (!picture || !this.pen) return false;
    this.setPace();
    this.drawSeen(picture, view, stage, ratio);
    const waits = this.sharp !== null && this.sharp.view.k !== view.k;
    const more = this.next !== null || waits || this.drawWhole() !== null;
    if (!this.isCopied || module !== this.module) {
      this.copy(view, stage, ratio);
      paintHeads(this.pen, heads, module, picture.inks, view, ratio);
    }
    this.module = module;
    return more;
  }

  /** The overview, once it exists. */
  get overview(): Raster | null {
    return this.whole;
  }

  /** Continue the overview while the view rests. Returns after how many ms to continue; null when done. */
  drawWhole(): number | null {
    const { picture } = this;
    if (!picture || this.whole?.picture === picture) return null;
    // Numbers that follow a slider change too fast to read.
    const still = Math.max(this.movedAt, this.changedAt) + STILL_MS - performance.now();
    if (still > 0) return still;
    if (this.nextWhole?.picture !== picture) {
      const { width, height } = picture.scene;
      const k = Math.min(
        FAR,
        WHOLE.side / Math.max(width, height, 1),
        Math.sqrt(WHOLE.area / Math.max(width * height, 1)),
      );
      const box = { left: 0, top: 0, right: width, bottom: height };
      this.nextWhole = new Raster(picture, box, { k, x: 0, y: 0 }, 1);
    }
    if (!this.nextWhole.work(this.slice)) return 0;
    this.whole = this.nextWhole;
    this.nextWhole = null;
    this.isCopied = false;
    return null;
  }

  /** Free what only an active canvas needs. */
  rest(): void {
    this.sharp = null;
    this.next = null;
  }

  private setPace(): void {
    const now = performance.now();
    const isSlow = now - this.paintedAt > SLOW_MS;
    this.paintedAt = now;
    const slice = this.slice * (isSlow ? 0.7 : 1.2);
    this.slice = Math.max(SLICE_MS.least, Math.min(SLICE_MS.most, slice));
  }

  private drawSeen(picture: Picture2D, view: View, stage: Size, ratio: number): void {
    const box = inScene(seen(view, stage, 0), picture.scene);
    const { next } = this;
    // Discard work for a view that is far away by now.
    if (next && !(isNear(next.view.k, view.k) && next.covers(box))) this.next = null;
    if (!this.next && this.needsDrawing(picture, view, stage, ratio)) {
      const around = seen(view, stage, roomFor(stage, ratio));
      this.next = new Raster(picture, inScene(around, picture.scene), view, ratio);
    }
    if (!this.next) return;
    // The first picture is shown while it grows.
    if (!this.sharp) this.isCopied = false;
    if (!this.next.work(this.slice)) return;
    this.sharp = this.next;
    this.next = null;
    this.isCopied = false;
  }

  private needsDrawing(picture: Picture2D, view: View, stage: Size, ratio: number): boolean {
    const { sharp } = this;
    if (sharp?.picture !== picture || sharp.ratio !== ratio) return true;
    const isOff = sharp.view.k !== view.k;
    if (isOff && (!this.isMoving || !isNear(sharp.view.k, view.k))) return true;
    return !sharp.covers(inScene(seen(view, stage, isOff ? 0 : LEFT), picture.scene));
  }

  private copy(view: View, stage: Size, ratio: number): void {
    const { pen, element: canvas } = this;
    if (!pen) return;
    const [width, height] = [Math.round(stage.width * ratio), Math.round(stage.height * ratio)];
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.globalAlpha = 1;
    pen.clearRect(0, 0, width, height);
    if (!this.sharp?.covers(inScene(seen(view, stage, 0), this.sharp.picture.scene)))
      this.whole?.copyTo(pen, view, ratio);
    if (this.sharp) this.sharp.copyTo(pen, view, ratio);
    else this.next?.copyTo(pen, view, ratio);
    this.isCopied = true;
  }
}

function isNear(a: number, b: number): boolean {
  return a < b * MOST_SCALING && b < a * MOST_SCALING;
}

/** The possible margin around the visible part, as a share of the stage. */
function roomFor({ width, height }: Size, ratio: number): number {
  const side = Math.sqrt(MOST_PIXELS / Math.max(1, width * height * ratio * ratio));
  return Math.max(0, Math.min(AROUND, (side - 1) / 2));
}

/** Room around a scene for rings and badges beyond its edge, px of the scene. */
const OVER = 24;

function inScene({ left, top, right, bottom }: Box, { width, height }: Scene): Box {
  return {
    left: Math.min(width + OVER, Math.max(-OVER, left)),
    top: Math.min(height + OVER, Math.max(-OVER, top)),
    right: Math.max(-OVER, Math.min(width + OVER, right)),
    bottom: Math.max(-OVER, Math.min(height + OVER, bottom)),
  };
}
