import { type Cleanup, element } from "../dom/element";
import { resizeHandle } from "../dom/handle";
import { whenResized } from "../dom/when_resized";
import type { Drawing } from "../interact/drawing";
import type { Scene } from "../scene/scene";
import {
  FIRST_SCALE,
  LARGEST_FIT,
  LEGIBLE,
  MARGIN,
  MOST_HEIGHT,
  MOST_OF_MODEL,
  READABLE,
  type Room,
  roomOfWidth,
  TALLEST,
} from "../scene/views";
import type { GraphModel } from "../wire";

const NARROW = 640;
/** The least width of the widget, px, for a panel over the picture; in a narrower one it is below. */
const ROOM_FOR_PANEL = 1000;
const LEAST_HEIGHT = 240;
const ROOM_TO_OPEN = 380;
const LEAST_PANEL = 220;
const DEFAULT_PANEL = 324;
/** The least height of a picture under an open panel: value, gradient and derivative without scrolling. */
const HIGH_ENOUGH = 420;

/**
 * The drawing with the details panel over its right side, or below it in a narrow cell. Both can be resized. A low
 * drawing grows at its lower edge while the panel is open; the picture stays where it is.
 */
export class Arrangement {
  readonly body = element("div", "gw-body");
  /** The handle that changes the widget's height. */
  readonly bottom: HTMLElement;
  private panelOpen = false;
  /** The height that the reader dragged, px; NaN for the default. */
  private height = Number.NaN;
  private panelWidth = Number.NaN;
  /** The default height for this picture; NaN before it is known. */
  private fitting = Number.NaN;
  /** The default height with what an open panel needs. */
  private grown = Number.NaN;
  private root: HTMLElement | null = null;
  /** Where the picture was pressed last, px from its left. */
  private pressedAt = 0;
  private readonly width = resizeHandle({
    label: "Resize the details panel",
    axis: "x",
    class: "gw-handle-x",
    grows: false,
    read: () => ({
      now: this.panel.offsetWidth,
      least: LEAST_PANEL,
      most: Math.max(LEAST_PANEL, (this.root?.clientWidth ?? 0) * 0.6),
    }),
    set: (size) => {
      this.panelWidth = size;
      this.arrange();
    },
  });
  private readonly handle = resizeHandle({
    label: "Resize the widget",
    axis: "y",
    class: "gw-handle-y",
    grows: true,
    read: () => ({ now: this.drawing.element.offsetHeight, least: 180, most: 2000 }),
    set: (size) => {
      this.height = size;
      this.arrange();
    },
  });

  constructor(
    private readonly drawing: Drawing,
    private readonly panel: HTMLElement,
  ) {
    this.bottom = this.handle.element;
    this.body.append(drawing.element, this.width.element, panel);
  }

  follow(root: HTMLElement, cleanup: Cleanup): void {
    this.root = root;
    cleanup.add(whenResized([root, this.drawing.canvas], () => this.arrange()));
    cleanup.listen<PointerEvent>(this.drawing.canvas, "pointerdown", ({ clientX }) => {
      this.pressedAt = clientX - this.drawing.canvas.getBoundingClientRect().left;
    });
  }

  /** Fit the height to the first picture of a graph or a direction. */
  suit(scene: Scene | null): void {
    const room = this.drawing.canvas.clientWidth;
    this.fitting = room > 0 ? defaultHeight(scene, room) : Number.NaN;
    this.arrange();
  }

  /** The largest size of a picture, px; about a notebook's before the widget is in the page. */
  roomFor(graph: Pick<GraphModel, "nodes">): Room {
    const { canvas, viewport } = this.drawing;
    return roomOfWidth(canvas.clientWidth - viewport.cover || 1000, graph);
  }

  /** Whether the panel lies over the picture, and may open by itself. */
  get isOver(): boolean {
    return (this.root?.clientWidth || ROOM_FOR_PANEL) >= ROOM_FOR_PANEL;
  }

  get hasPanel(): boolean {
    return this.panelOpen;
  }

  setPanel(open: boolean): void {
    if (this.panelOpen === open) return;
    this.panelOpen = open;
    // A panel under the pointer would take the second click of a double click.
    const isUnderPointer =
      this.isOver && this.pressedAt > this.drawing.canvas.clientWidth - this.across;
    if (open && isUnderPointer) this.drawing.viewport.whenQuiet(() => this.arrange());
    else this.arrange();
  }

  /** The width of a panel over the picture. */
  private get across(): number {
    return Number.isNaN(this.panelWidth) ? DEFAULT_PANEL : this.panelWidth;
  }

  /** Set the sizes that depend on the cell's width and the reader's choices. */
  arrange(): void {
    const { root, drawing, panel, panelOpen } = this;
    if (!root) return;
    const narrow = root.clientWidth > 0 && root.clientWidth < NARROW;
    root.classList.toggle("is-narrow", narrow);
    const isOver = this.isOver && root.clientWidth > 0;
    root.classList.toggle("has-panel-below", !isOver);
    panel.hidden = !panelOpen;
    this.width.element.hidden = !panelOpen || !isOver;
    drawing.viewport.spare = isOver ? this.across : 0;
    drawing.viewport.cover = panelOpen && isOver ? this.across : 0;
    this.body.style.setProperty("--gw-cover", `${drawing.viewport.cover}px`);
    panel.style.width = isOver ? `${this.across}px` : "";
    const room = drawing.canvas.clientWidth;
    if (Number.isNaN(this.fitting) && room > 0) this.fitting = defaultHeight(drawing.scene, room);
    const grown = panelOpen && isOver ? Math.max(this.fitting, HIGH_ENOUGH) : this.fitting;
    const wanted = Number.isNaN(this.height) ? grown : this.height;
    if (!Number.isNaN(wanted))
      this.body.style.setProperty("--gw-height", `${Math.round(wanted)}px`);
    const size = { width: drawing.canvas.clientWidth, height: drawing.canvas.clientHeight };
    drawing.resize(size, grown !== this.grown && !Number.isNaN(this.grown));
    this.grown = grown;
    this.width.update();
    this.handle.update();
  }
}

/** High enough for a small graph at its largest scale; a large graph gets a window to pan in. */
function defaultHeight(scene: Scene | null, width: number): number {
  if (!scene) return LEAST_HEIGHT;
  const scale = Math.min(LARGEST_FIT, (width - 2 * MARGIN) / Math.max(1, scene.width));
  const readable = scale < READABLE ? FIRST_SCALE : scale;
  // The reader will open closed boxes, so leave room.
  const hasBoxes = scene.nodes.some((node) => node.group);
  const [least, most] = hasBoxes ? [ROOM_TO_OPEN, MOST_OF_MODEL] : [LEAST_HEIGHT, MOST_HEIGHT];
  const high = (scale: number) => scene.height * scale + 2 * MARGIN;
  return Math.max(
    least,
    Math.min(high(readable), Math.max(most, Math.min(TALLEST, high(LEGIBLE)))),
  );
}
