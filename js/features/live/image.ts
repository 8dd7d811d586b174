import { element, KEEP_KEYS, linkButton, onDrag } from "../../dom/element";

/** The largest side of an image that can be drawn on. */
const MOST = 28;
/** The smallest: less is a matrix of numbers. */
const LEAST = 4;
/** Px of the longer side in the page. */
const SIDE = 140;
/** How far the keys move, by key: rows and columns. */
const MOVES: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** Height and width of a tensor that is one grey image of up to 28 x 28; null for any other. */
export function imageSize(shape: readonly number[]): [height: number, width: number] | null {
  if (shape.length < 2 || shape.slice(0, -2).some((size) => size !== 1)) return null;
  const [height, width] = shape.slice(-2);
  const fits = [height, width].every((size) => size >= LEAST && size <= MOST);
  return fits && height * width > 16 ? [height, width] : null;
}

/** A grey image to draw on, with a pointer or with arrow keys and the space bar. */
export class ImageControl {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private numbers: number[] = [];
  private start: readonly number[] | null = null;
  /** The pixel of the keys. */
  private at = 0;
  private hasKeys = false;

  constructor(
    name: string,
    private readonly size: [height: number, width: number],
    private readonly painted: (numbers: readonly number[]) => void,
  ) {
    const [height, width] = size;
    const scale = Math.floor(SIDE / Math.max(height, width));
    this.canvas = element("canvas", {
      class: "gw-live-image",
      width: width * scale,
      height: height * scale,
      tabindex: 0,
      role: "application",
      "aria-roledescription": "image to draw on",
      "aria-label": `${name}: draw with the pointer, or with arrow keys and space`,
      title: "Draw on it; with Shift, erase",
      ...KEEP_KEYS,
    });
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    for (const event of ["focus", "blur"] as const)
      this.canvas.addEventListener(event, () => this.draw());
    onDrag(this.canvas, (down) => {
      const paint = (event: PointerEvent) => this.paintAt(event, down.shiftKey);
      this.hasKeys = false;
      paint(down);
      return paint;
    });
    this.element = element("div", "gw-live-drawing", [
      this.canvas,
      linkButton("clear", () => this.give(this.numbers.fill(this.range[0])), {
        label: `Clear ${name}`,
      }),
    ]);
  }

  show(numbers: readonly number[]): void {
    this.start ??= numbers.slice();
    this.numbers = numbers.slice();
    this.draw();
  }

  /** The numbers of black and white: the image's least and largest at the start, and at least 0 to 1. */
  private get range(): [number, number] {
    const start = (this.start ?? []).filter(Number.isFinite);
    return [Math.min(0, ...start), Math.max(1, ...start)];
  }

  private give(numbers: number[]): void {
    this.numbers = numbers;
    this.draw();
    this.painted(numbers);
  }

  private paintAt({ clientX, clientY }: PointerEvent, erases: boolean): void {
    const [height, width] = this.size;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor(((clientX - box.left) / box.width) * width);
    const row = Math.floor(((clientY - box.top) / box.height) * height);
    if (row < 0 || column < 0 || row >= height || column >= width) return;
    this.at = row * width + column;
    this.paint(erases);
  }

  private paint(erases: boolean): void {
    const value = this.range[erases ? 0 : 1];
    if (this.numbers[this.at] === value) return;
    this.numbers[this.at] = value;
    this.give(this.numbers);
  }

  private press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [height, width] = this.size;
    const move = MOVES[event.key];
    if (!move && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    this.hasKeys = true;
    const [row, column] = [Math.floor(this.at / width), this.at % width];
    if (move) {
      const to = (place: number, by: number, size: number) =>
        Math.min(size - 1, Math.max(0, place + by));
      this.at = to(row, move[0], height) * width + to(column, move[1], width);
      this.draw();
    } else this.paint(this.numbers[this.at] === this.range[1]);
  }

  private draw(): void {
    const [, width] = this.size;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const [low, high] = this.range;
    const scale = this.canvas.width / width;
    this.numbers.forEach((number, i) => {
      const light = Math.round((255 * (number - low)) / (high - low)) || 0;
      context.fillStyle = `rgb(${light} ${light} ${light})`;
      context.fillRect((i % width) * scale, Math.floor(i / width) * scale, scale, scale);
    });
    if (!this.hasKeys || !this.canvas.matches(":focus")) return;
    const [x, y] = [(this.at % width) * scale, Math.floor(this.at / width) * scale];
    context.strokeStyle = "#f80";
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, scale - 2, scale - 2);
  }
}
