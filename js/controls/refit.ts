import { type FoldController, MOST_AT_ONCE } from "../interact/fold_controller";
import type { Viewport } from "../interact/viewport";
import { isOtherWidth } from "../scene/views";

/** Wait until the reader stops resizing the page, ms. */
const SETTLED_MS = 200;
/** The most nodes of a graph that is refolded; larger ones take too long. */
const MOST_NODES = 10 * MOST_AT_ONCE;

/** Refold a graph when the width of its place changes, until the reader touches the folding or the camera. */
export class Refit {
  /** The width of the first picture, px; 0 before the widget is in the page. */
  private width = 0;
  private timer = 0;

  constructor(
    private readonly viewport: Pick<Viewport, "isUntouched" | "isWhole">,
    private readonly folds: Pick<FoldController, "isUntouched" | "grouped">,
    private readonly again: () => void,
  ) {}

  /** Note the width for which a first picture is made. */
  madeFor(width: number): void {
    this.width = width;
  }

  /** Take a new width. A picture made before the first width is remade at once, unless it is large. */
  widthIs(width: number): void {
    window.clearTimeout(this.timer);
    const { width: before } = this;
    if (width === 0) return;
    if (before > 0 && !isOtherWidth(before, width)) return;
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
