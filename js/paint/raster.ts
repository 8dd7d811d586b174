import type { Box } from "../scene/grid";
import { contains, type View } from "../scene/views";
import { type Picture2D, paintPicture } from "./canvas_picture";
import type { Pen, Place2D } from "./paint_parts";

/** A part of a picture on its own canvas, drawn step by step and copied to where it is visible. */
export class Raster {
  readonly canvas = document.createElement("canvas");
  isDone = false;
  private readonly place: Place2D;
  private readonly job: Iterator<void>;

  /** Covers `box` of the scene as `view` shows it; `ratio` is device px per px of the stage. */
  constructor(
    readonly picture: Picture2D,
    readonly box: Box,
    readonly view: View,
    readonly ratio: number,
  ) {
    const k = view.k * ratio;
    // Whole px from the view, so that at its scale copying is exact.
    const left = Math.floor(view.x * ratio + box.left * k);
    const top = Math.floor(view.y * ratio + box.top * k);
    this.place = { k, x: view.x * ratio - left, y: view.y * ratio - top, ratio };
    this.canvas.width = Math.max(1, Math.ceil((box.right - box.left) * k) + 1);
    this.canvas.height = Math.max(1, Math.ceil((box.bottom - box.top) * k) + 1);
    const pen: Pen | null = this.canvas.getContext("2d");
    this.job = pen ? paintPicture(pen, picture, box, this.place) : [][Symbol.iterator]();
  }

  /** Draw for about this many ms; true when done. */
  work(ms: number): boolean {
    const end = performance.now() + ms;
    while (!this.isDone && performance.now() < end) this.isDone = this.job.next().done === true;
    return this.isDone;
  }

  covers(box: Box): boolean {
    return contains(this.box, box);
  }

  /** Copy it over a canvas of `ratio` device px per px of the stage. */
  copyTo(pen: CanvasRenderingContext2D, view: View, ratio: number): void {
    const { place, canvas } = this;
    const scale = (view.k * ratio) / place.k;
    let [x, y] = [view.x * ratio - scale * place.x, view.y * ratio - scale * place.y];
    let [width, height] = [canvas.width * scale, canvas.height * scale];
    if (Math.abs(scale - 1) < 1e-6)
      [x, y, width, height] = [Math.round(x), Math.round(y), canvas.width, canvas.height];
    if (this.isDone) pen.clearRect(x, y, width, height);
    pen.drawImage(canvas, x, y, width, height);
  }
}
