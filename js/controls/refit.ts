import { type FoldController, MOST_AT_ONCE } from "../interact/fold_controller";
import type { Viewport } from "../interact/viewport";

/** A place that is so many times as wide, or as narrow, is another place. */
const MUCH = 1.3;
/** Until nobody drags the edge of the page any more, ms. */
const SETTLED_MS = 200;
/** In a graph of more nodes than this it takes too long to find what fits again. */
const MOST_NODES = 10 * MOST_AT_ONCE;

/** Has a graph folded anew when its place has another width, as long as nobody has touched the folding or the camera. */
export class Refit {
  /** The width that the first picture was made for, px; 0 before the widget is on the page. */
  private width = 0;
  private timer = 0;

  constructor(
    private readonly viewport: Pick<Viewport, "isUntouched" | "isWhole">,
    private readonly folds: Pick<FoldController, "isUntouched" | "grouped">,
    private readonly again: () => void,
  ) {}

  /** A first picture is made for a place of this width. */
  madeFor(width: number): void {
    this.width = width;
  }

  /** The place has this width now. A picture that was made before there was one is made at once, unless it is large. */
  widthIs(width: number): void {
    window.clearTimeout(this.timer);
    const { width: before } = this;
    if (width === 0) return;
    if (before > 0 && Math.max(width / before, before / width) < MUCH) return;
    const nodes = this.folds.grouped?.graph.nodes.length ?? 0;
    if (before === 0 && nodes <= MOST_AT_ONCE) this.make(width);
    else if (nodes <= MOST_NODES)
      this.timer = window.setTimeout(() => this.make(width), SETTLED_MS);
  }

  stop(): void {
    window.clearTimeout(this.timer);
  }

  private make(width: number): void {
    const { viewport, folds } = this;
    const isAway = this.width > 0 && !viewport.isUntouched && !viewport.isWhole;
    if (folds.isUntouched && isAway) return; // once it is fitted again
    this.width = width;
    if (folds.isUntouched) this.again();
  }
}
