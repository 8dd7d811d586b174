import { element, svgElement } from "../dom/element";
import { groupedGraph } from "../fold/grouped_graph";
import { pathTo } from "../fold/tree";
import { Drawing, type Snapshot } from "../interact/drawing";
import type { Press } from "../interact/hit";
import type { Direction } from "../layout/direction";
import { labelParts } from "../paint/label_parts";
import { seenMarks } from "../paint/marks";
import { makePart, part } from "../paint/parts";
import { pathData } from "../scene/curve";
import type { SceneEdge, SceneNode } from "../scene/scene";
import { FIRST_SCALE, LARGEST_FIT, MARGIN, READABLE, type Size, type View } from "../scene/views";
import { type Progress, runningAt } from "../steps/recording";
import type { Measure } from "../text/measure";
import { counted, formatCount } from "../text/number";
import { oneLine } from "../text/shorten";
import type { StateModel } from "../wire";
import type { ComparePart } from "./compare_part";
import { areCards, HALO, type PaneOptions, type PaneScene, paneScenes } from "./scenes";
import type { United } from "./united";

interface PaneGridEvents {
  select(place: number | null): void;
  zoomed(scale: number): void;
  escape(): boolean;
  /** Boxes were opened or closed. */
  folded(): void;
}

/** Keys that open the closed box that has the focus. */
const FOLDING = ["+", "=", "Enter"];

/** The least width of a pane beside another, px. */
const LEAST_WIDTH = 280;
/** The least width of a pane of cards beside another, px. */
const LEAST_CARDS = 340;
const LEAST_HEIGHT = 240;
const MOST_HEIGHT = 560;
const MOST_HEIGHT_STACKED = 340;
/** The largest share of the browser's window, so that the table of leaves below is visible too. */
const MOST_OF_WINDOW = 0.4;
/** The share when less would make numbers too small to read. */
const MOST_TO_READ = 0.5;

interface ShownPane {
  drawing: Drawing;
  head: HTMLElement;
}

/** The number of graphs side by side. */
function columnsFor(united: United, width: number): number {
  const count = united.panes.length;
  const least = areCards(united) ? LEAST_CARDS : LEAST_WIDTH;
  const fitting = Math.max(1, Math.min(count, Math.floor(width / least)));
  return count === 4 && fitting === 3 ? 2 : fitting;
}

/** One drawing per graph. All show the same part, and share their marks. */
export class PaneGrid {
  readonly element = element("div", "gw-panes");
  progress: (Progress | null)[] = [];
  private shown: ShownPane[] = [];
  private united: United | null = null;
  private readonly views = new LinkedViews();
  /** Paths of the boxes that the reader opened. */
  private readonly opened = new Set<string>();

  constructor(
    private readonly measure: Measure,
    private readonly events: PaneGridEvents,
  ) {}

  /** Draw graphs from their first view, with the signs and colours of features. */
  show(
    united: United,
    directionOf: (options: PaneOptions) => Direction,
    parts: readonly ComparePart[] = [],
  ): void {
    if (this.united?.panes.length !== united.panes.length) this.remake(united);
    this.united = united;
    const signs = new Map(parts.flatMap((part) => [...(part.signs?.() ?? [])]));
    const options = { signs, opened: this.opened };
    const direction = directionOf(options);
    const scenes = paneScenes(united, direction, this.measure, this.roomFor(united), options);
    this.shown.forEach((pane, p) => {
      const { graph, label } = united.panes[p];
      const only = united.members.filter((of) => of[p] !== null && of.includes(null)).length;
      const size = `${counted(graph.nodes.length, "node")}${only > 0 ? `, ${formatCount(only)} not in all graphs` : ""}`;
      pane.head.replaceChildren(
        element("b", "gw-pane-label", oneLine(label)),
        element("span", "gw-dim", size),
      );
      pane.drawing.canvas.setAttribute(
        "aria-label",
        `${oneLine(label)}: autograd graph of ${size}. Arrow keys walk along edges, Enter selects.`,
      );
      paintDifferences(pane.drawing.underlay, pane.drawing.overlay, scenes[p], (slot) =>
        this.events.select(united.slot.indexOf(slot)),
      );
    });
    this.views.together(this.drawings, (drawing, p) =>
      drawing.show(united.panes[p].graph, scenes[p].scene),
    );
    this.shown.forEach(({ drawing }, p) => {
      for (const part of parts) {
        const painted = part.paint?.(united.panes[p], scenes[p].scene);
        drawing.overlay.append(...(painted?.signs ?? []));
        if (painted) drawing.mark({ tint: painted.tint });
      }
    });
  }

  /** The largest size of one graph's picture, px; about a notebook's before the widget is in the page. */
  roomFor(united: United): Size {
    const width = this.element.clientWidth || 1000;
    const columns = columnsFor(united, width);
    const isStacked = columns < united.panes.length;
    return { width: width / columns, height: isStacked ? MOST_HEIGHT_STACKED : MOST_HEIGHT };
  }

  /** Size the panes for a width. `height` is the reader's choice, NaN for the default. */
  arrange(width: number, narrow: boolean, height: number): void {
    const count = this.shown.length;
    if (count === 0 || width === 0 || !this.united) return;
    const columns = narrow ? 1 : columnsFor(this.united, width);
    this.element.style.setProperty("--gw-columns", String(columns));
    const wanted = Number.isNaN(height)
      ? this.defaultHeight(width / columns, columns < count)
      : height;
    this.element.style.setProperty("--gw-height", `${Math.round(wanted)}px`);
    this.views.together(this.drawings, (drawing) =>
      drawing.resize({ width: drawing.canvas.clientWidth, height: drawing.canvas.clientHeight }),
    );
  }

  get rowHeight(): number {
    return this.first?.element.offsetHeight ?? 0;
  }

  get first(): Drawing | undefined {
    return this.shown[0]?.drawing;
  }

  /** All pictures with their labels. */
  get snapshots(): (Snapshot | null)[] {
    const label = (p: number) => oneLine(this.united?.panes[p].label ?? "");
    return this.drawings.map((drawing, p) => drawing.snapshot(label(p)));
  }

  get hasFocus(): boolean {
    return this.drawings.some((drawing) => drawing.hasFocus);
  }

  focus(): void {
    this.first?.focus();
  }

  markSelected(place: number | null): void {
    this.each(({ drawing }, p) => {
      drawing.mark({ selected: this.nodeAt(place, p) });
      markGhost(drawing.underlay, place === null ? null : (this.united?.slot[place] ?? null));
    });
  }

  markStates(states: readonly StateModel[]): void {
    this.each(({ drawing }, p) => {
      drawing.mark(seenMarks(states[p], this.united?.panes[p].graph.nodes ?? []));
    });
  }

  markProgress(progress: (Progress | null)[]): void {
    this.progress = progress;
    this.each(({ drawing }, p) => drawing.mark({ progress: progress[p] }));
  }

  markHits(places: ReadonlySet<number> | null, place: number | null): void {
    this.each(({ drawing }, p) => {
      const hits = places && new Set([...places].flatMap((at) => this.nodeAt(at, p) ?? []));
      drawing.mark({ hits, hit: this.nodeAt(place, p) });
    });
  }

  showHit(place: number | null): void {
    this.each(({ drawing }, p) => drawing.mark({ hit: this.nodeAt(place, p) }));
    if (place !== null) this.reveal(place, true);
  }

  /** Bring a place into view at the same point of every pane. */
  reveal(place: number, centre = false): void {
    const p = this.united?.members[place]?.findIndex((node) => node !== null) ?? -1;
    const node = this.nodeAt(place, p);
    if (node !== null) this.shown[p]?.drawing.viewport.reveal(node, centre);
  }

  /** Move no further than needed to show the running node of a pane. */
  follow(p: number, cursor: number): void {
    const one = this.progress[p];
    const node = one ? runningAt(one.recording, cursor) : null;
    if (node !== null) this.shown[p]?.drawing.viewport.follow(node);
  }

  destroy(): void {
    for (const { drawing } of this.shown) drawing.destroy();
    this.shown = [];
  }

  get drawings(): Drawing[] {
    return this.shown.map(({ drawing }) => drawing);
  }

  private each(change: (pane: ShownPane, p: number) => void): void {
    this.shown.forEach(change);
  }

  private nodeAt(place: number | null, p: number): number | null {
    return place === null ? null : (this.united?.members[place]?.[p] ?? null);
  }

  private placeOf(node: number | null, p: number): number | null {
    return node === null ? null : (this.united?.panes[p].place[node] ?? null);
  }

  private remake(united: United): void {
    this.destroy();
    this.shown = united.panes.map((_, p) => {
      const drawing: Drawing = new Drawing(
        {
          select: (node) => this.events.select(this.placeOf(node, p)),
          zoomed: (scale) => {
            if (p === 0) this.events.zoomed(scale);
          },
          escape: () => this.events.escape(),
          moved: (view) => this.views.moved(drawing, this.drawings, view),
          hovered: (node) => this.hover(p, node),
          pressed: (press) => this.fold(press),
          keyed: (key, node) => FOLDING.includes(key) && this.open(node),
        },
        this.measure,
        { minimap: false },
      );
      return { drawing, head: element("div", "gw-pane-head") };
    });
    this.element.replaceChildren(
      ...this.shown.map(({ drawing, head }) =>
        element("section", "gw-pane", [head, drawing.element]),
      ),
    );
  }

  /** Open the closed boxes around a place. */
  openTo(place: number): void {
    const { united, opened } = this;
    const isHidden = this.shown.some(({ drawing: { scene } }, p) => {
      const [at] = scene?.drawn[this.nodeAt(place, p) ?? -1] ?? [];
      return at !== undefined && scene?.nodes[at].group !== undefined;
    });
    if (!united || !isHidden) return;
    const { tree } = groupedGraph(united.slots);
    for (const path of pathTo(tree, united.slot[place])) opened.add(path);
    this.events.folded();
  }

  /** Open a closed box, or close one that the reader opened; false if the press was neither. */
  private fold({ node, frame, isSign, isDouble }: Press): boolean {
    if (!isSign && !isDouble) return false;
    if (node) return this.open(node);
    if (frame === null || !this.opened.delete(frame)) return false;
    this.events.folded();
    return true;
  }

  private open({ group }: SceneNode): boolean {
    for (const path of group?.paths ?? []) this.opened.add(path);
    if (group) this.events.folded();
    return group !== undefined;
  }

  private hover(from: number, node: number | null): void {
    const place = this.placeOf(node, from);
    this.each(({ drawing }, p) => {
      if (p !== from) drawing.mark({ hovered: this.nodeAt(place, p) });
    });
  }

  /** High enough for a small graph at its largest scale. */
  private defaultHeight(width: number, stacked: boolean): number {
    const scene = this.first?.scene;
    const most = stacked ? MOST_HEIGHT_STACKED : MOST_HEIGHT;
    if (!scene) return LEAST_HEIGHT;
    const scale = Math.min(LARGEST_FIT, (width - 2 * MARGIN) / Math.max(1, scene.width));
    const readable = scale < READABLE ? FIRST_SCALE : scale;
    const high = (scale: number) => scene.height * scale + 2 * MARGIN;
    const legible = high(Math.min(readable, FIRST_SCALE));
    const { outerHeight } = window;
    const low = Math.max(
      outerHeight * MOST_OF_WINDOW,
      Math.min(outerHeight * MOST_TO_READ, legible),
    );
    return Math.max(LEAST_HEIGHT, Math.min(most, low, high(readable)));
  }
}

/** The most tags; other nodes still have a coloured ground. */
const MOST_TAGS = 400;
/** The most outlines that can be clicked; more are drawn as one path. */
const MOST_GHOSTS = 400;

/** Draw the differences under and over a pane: nodes that this graph lacks, and nodes that others lack. */
function paintDifferences(
  underlay: SVGGElement,
  overlay: SVGGElement,
  pane: PaneScene,
  selectSlot: (slot: number) => void,
): void {
  const path = (name: string, data: string[]) =>
    svgElement("path", { class: name, d: data.join("") });
  const lines = (edges: readonly SceneEdge[]) => edges.map(({ curve }) => pathData(curve));
  const grounds = pane.only.map(({ node }) => boxData(node, HALO + node.shape.outline));
  const isMany = pane.ghosts.length > MOST_GHOSTS;
  underlay.replaceChildren(
    path("gw-only-edge", lines(pane.onlyEdges)),
    path("gw-only-ground", grounds),
    path("gw-ghost-edge", lines(pane.ghostEdges)),
    ...(isMany
      ? [
          path(
            "gw-ghosts",
            pane.ghosts.map((node) => boxData(node, 0)),
          ),
        ]
      : pane.ghosts.map((node) => ghost(node, selectSlot))),
  );
  const tagged = [...pane.only, ...pane.noted].slice(0, MOST_TAGS);
  overlay.replaceChildren(
    ...tagged.map(({ tag }) => makePart(part("g", { class: "gw-only-tag" }, labelParts(tag)))),
  );
}

/** Mark the outline of the selected node in a pane that lacks it. */
function markGhost(underlay: SVGGElement, slot: number | null): void {
  for (const part of underlay.querySelectorAll<SVGElement>(".gw-ghost"))
    part.classList.toggle("is-selected", part.dataset.slot === String(slot));
}

function ghost(node: SceneNode, selectSlot: (slot: number) => void): SVGElement {
  const place = { class: "gw-ghost", "data-slot": node.id, d: boxData(node, 0) };
  const outline = makePart(part("path", place, [part("title", {}, "Not in this graph")]));
  outline.addEventListener("click", (event) => {
    event.stopPropagation();
    selectSlot(node.id);
  });
  return outline;
}

/** A rounded rectangle around a node's box. */
function boxData({ x, y, leaf, root, shape }: SceneNode, grow: number): string {
  const width = shape.width + 2 * grow;
  const height = shape.height + 2 * grow;
  const r = Math.min(height / 2, (leaf ? (root ? 14 : 21) : 5) + grow);
  const [left, top] = [x - width / 2, y - height / 2];
  const corner = (dx: number, dy: number) => `a${r},${r} 0 0 1 ${dx},${dy}`;
  return (
    `M${left + r},${top}h${width - 2 * r}${corner(r, r)}v${height - 2 * r}${corner(-r, r)}` +
    `h${2 * r - width}${corner(-r, -r)}v${2 * r - height}${corner(r, -r)}z`
  );
}

/** Keep several drawings of the same size on the same view. */
class LinkedViews {
  private following = false;

  /** React to a changed view of one drawing. */
  moved(from: Drawing, all: readonly Drawing[], view: View): void {
    if (this.following) return;
    this.following = true;
    try {
      for (const other of all)
        if (other !== from) other.viewport.look(view, from.viewport.isUntouched);
    } finally {
      this.following = false;
    }
  }

  /** Change each drawing separately, then show all of them like the one with the most nodes. */
  together(all: readonly Drawing[], change: (drawing: Drawing, i: number) => void): void {
    this.following = true;
    try {
      all.forEach(change);
      const size = (drawing: Drawing) => drawing.scene?.nodes.length ?? 0;
      const largest = all.reduce((best, one) => (size(one) > size(best) ? one : best));
      const { view, isUntouched } = largest.viewport;
      for (const other of all) if (other !== largest) other.viewport.look(view, isUntouched);
    } finally {
      this.following = false;
    }
  }
}
