import type { Pen } from "../paint/paint_parts";

/** A drawn item with everything that decides its look. Boxes and points are in device px. */
export interface Stroke {
  kind: "fill" | "stroke" | "text";
  colour: string;
  opacity: number;
  width: number;
  dash: readonly number[];
  text: string;
  font: string;
  /** Left, top, right and bottom of the path. */
  box: [number, number, number, number];
  /** The number of its pieces: boxes, or line segments. */
  pieces: number;
  /** SVG path data, if used. */
  data: string;
}

/** Replaces the browser's class, and keeps the data. */
export class FakePath2D {
  constructor(readonly data: string) {}
}

/** A 2D context that records everything. */
export class RecordingPen {
  readonly strokes: Stroke[] = [];
  globalAlpha = 1;
  fillStyle = "#000";
  strokeStyle = "#000";
  lineWidth = 1;
  lineJoin = "miter";
  font = "10px sans-serif";
  textAlign = "left";
  textRendering = "auto";
  private dash: readonly number[] = [];
  private matrix: [number, number, number] = [1, 0, 0];
  private traced: [number, number][] = [];
  private pieces = 0;

  /** The type that the painter uses. */
  get pen(): Pen {
    return this as unknown as Pen;
  }

  setTransform(k: number, _b: number, _c: number, _d: number, x: number, y: number): void {
    this.matrix = [k, x, y];
  }

  setLineDash(dash: readonly number[]): void {
    this.dash = [...dash];
  }

  beginPath(): void {
    this.traced = [];
    this.pieces = 0;
  }

  moveTo(x: number, y: number): void {
    this.trace(x, y);
  }

  lineTo(x: number, y: number): void {
    this.trace(x, y);
    this.pieces++;
  }

  bezierCurveTo(...points: [number, number, number, number, number, number]): void {
    this.lineTo(points[4], points[5]);
  }

  arc(x: number, y: number, r: number): void {
    this.rect(x - r, y - r, 2 * r, 2 * r);
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.trace(x, y);
    this.trace(x + width, y + height);
    this.pieces++;
  }

  roundRect(x: number, y: number, width: number, height: number): void {
    this.rect(x, y, width, height);
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this.beginPath();
    this.rect(x, y, width, height);
    this.fill();
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this.beginPath();
    this.rect(x, y, width, height);
    this.stroke();
  }

  fill(path?: unknown): void {
    this.keep("fill", this.fillStyle, "", path);
  }

  stroke(path?: unknown): void {
    this.keep("stroke", this.strokeStyle, "", path);
  }

  fillText(text: string, x: number, y: number): void {
    this.beginPath();
    this.trace(x, y);
    this.keep("text", this.fillStyle, text);
  }

  strokeText(): void {}

  measureText(text: string): { width: number } {
    return { width: 6 * text.length };
  }

  private trace(x: number, y: number): void {
    const [k, dx, dy] = this.matrix;
    this.traced.push([k * x + dx, k * y + dy]);
  }

  private keep(kind: Stroke["kind"], colour: string, text: string, path?: unknown): void {
    const xs = this.traced.map(([x]) => x);
    const ys = this.traced.map(([, y]) => y);
    this.strokes.push({
      kind,
      colour,
      opacity: this.globalAlpha,
      width: this.lineWidth * this.matrix[0],
      dash: this.dash,
      text,
      font: this.font,
      box: path
        ? [Number.NaN, Number.NaN, Number.NaN, Number.NaN]
        : [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)],
      pieces: path ? 0 : this.pieces,
      data: path instanceof FakePath2D ? path.data : "",
    });
  }
}
