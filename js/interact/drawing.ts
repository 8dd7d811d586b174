import { Cleanup, element, focusIn, KEEP_KEYS } from "../dom/element";
import { whenThemeChanges } from "../dom/theme";
import type { GradientLabel } from "../paint/gradient_label";
import { FAR } from "../paint/level_of_detail";
import { type Marks, NO_MARKS, type Widths } from "../paint/marks";
import { Minimap } from "../paint/minimap";
import { Painting, stageElement } from "../paint/painting";
import { boxOf, nearestCopy } from "../scene/find";
import type { Scene, SceneEdge, SceneNode } from "../scene/scene";
import { type Hold, heldView, isWhole, type Size, seenBox, type View } from "../scene/views";
import type { Progress } from "../steps/recording";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import type { Pointed } from "./camera";
import { describeDrawn, describeEdge } from "./describe";
import { glide, leaving, vanish } from "./flip";
import type { Press } from "./hit";
import { edgeAt, type Hit, hitAt } from "./hit";
import { Pointer } from "./pointer";
import { canMove, numbersIn, playStep } from "./step_motion";
import { Tooltip, WheelHint } from "./tooltip";
import { Viewport } from "./viewport";
import { firstStop, Keyboard } from "./walk";

/** The whole drawing at full detail. */
export interface Snapshot {
  graph: GraphModel;
  scene: Scene;
  marks: Marks;
  gradients: readonly GradientLabel[];
  /** The layers of others under and over it. */
  under: SVGElement[];
  over: SVGElement[];
  /** Its label, if any. User text. */
  label: string | null;
}

/** The drawn graph: a focusable element with an SVG to zoom, click and walk. */
export class Drawing {
  readonly element: HTMLElement;
  readonly canvas: HTMLElement;
  readonly viewport: Viewport;
  scene: Scene | null = null;
  private graph: GraphModel | null = null;
  private marks: Marks = NO_MARKS;
  private request = 0;
  private timer = 0;
  private pointerOver = false;
  private overEdge: SceneEdge | null = null;
  private stopWatching: (() => void) | null = null;
  /** Sets the next painted picture in motion. */
  private motion: (() => void) | null = null;
  private readonly painting: Painting;
  private readonly live = element("div", {
    class: "gw-visually-hidden",
    "aria-live": "polite",
    role: "status",
  });
  private readonly hint = new WheelHint();
  private readonly tooltip = new Tooltip();
  private readonly keyboard = new Keyboard({
    keyed: (key, node) => this.events.keyed?.(key, node) ?? false,
    select: (node) => this.select(node),
    stopAt: (index) => this.stopAt(index),
    say: (words) => {
      this.live.textContent = words;
    },
    escape: () => this.escape(),
    zoomBy: (factor) => this.zoomBy(factor),
  });
  private readonly cleanup = new Cleanup();

  constructor(
    private readonly events: DrawingEvents,
    measure: Measure,
    { minimap = true }: { minimap?: boolean } = {},
  ) {
    const map = minimap ? new Minimap((x, y) => this.viewport.centreOn(x, y)) : null;
    this.painting = new Painting(measure, map);
    this.canvas = stageElement(this.painting, {
      tabindex: 0,
      role: "application",
      "aria-roledescription": "graph",
      ...KEEP_KEYS,
    });
    this.element = element("div", "gw-stage", [
      this.canvas,
      element("div", "gw-foot", map?.element),
      this.hint.element,
      this.tooltip.element,
      this.live,
    ]);
    this.viewport = new Viewport(this.painting.svg, this.canvas, {
      moved: (view) => {
        this.painting.move(view);
        this.tooltip.hide();
        this.paintSoon();
        this.events.zoomed(view.k);
        this.events.moved?.(view);
      },
      wheelIgnored: () => this.hint.show(),
      isTaken: (event) => {
        const hit = this.hitAt(event);
        const isOn = hit !== null && (hit.node ?? hit.frame ?? hit.folded) !== null;
        return isOn || (this.events.isInside?.() ?? false);
      },
    });
    this.listen();
  }

  show(graph: GraphModel, scene: Scene): void {
    this.graph = graph;
    this.take(scene, null);
    this.frameFirst();
  }

  /** Draw another picture of the same graph. A held place stays; without one it is a first view. */
  replace(scene: Scene, hold: Hold | null): void {
    const { scene: before, viewport } = this;
    const { view } = viewport;
    const { focused } = this.marks;
    const id = focused === null ? undefined : before?.nodes[focused]?.id;
    this.take(scene, scene.drawn[id ?? -1]?.[0] ?? null);
    if (!before || !hold || !viewport.isFramed) {
      this.frameFirst();
      return;
    }
    viewport.put(scene, heldView(view, hold));
    this.paint();
    glide(this.canvas, { scene: before, view }, scene, viewport.view);
  }

  /** Draw the updated graph. `was`: ids before. A held place stays, and a scene seen whole stays whole. */
  become(
    graph: GraphModel,
    scene: Scene,
    hold: Hold | null,
    was: readonly (number | null)[],
  ): void {
    const { scene: before, viewport } = this;
    if (!before || !hold || !viewport.isFramed) {
      this.show(graph, scene);
      return;
    }
    const { view, stage, isWhole: wasWhole } = viewport;
    const { focused } = this.marks;
    const id = focused === null ? -1 : was.indexOf(before.nodes[focused]?.id ?? -1);
    const ghosts = leaving(this.canvas, before, was);
    this.graph = graph;
    this.take(scene, scene.drawn[id]?.[0] ?? null);
    const held = heldView(view, hold);
    const isLost = wasWhole && !isWhole(scene, held, stage);
    viewport.put(scene, isLost ? viewport.whole(scene) : held);
    this.paint();
    glide(this.canvas, { scene: before, view }, scene, viewport.view, was);
    vanish(this.overlay, ghosts, view, viewport.view);
  }

  /** Draw the same picture with other numbers; nothing moves. */
  renew(graph: GraphModel, scene: Scene): void {
    this.graph = graph;
    if (scene === this.scene) return;
    this.scene = scene;
    this.viewport.renew(scene);
    this.painting.refresh();
    this.paintSoon();
  }

  mark(marks: Partial<Marks>): void {
    this.marks = { ...this.marks, ...marks };
    this.painting.refresh();
    this.paintSoon();
  }

  /** Show another position in the pass; with motion, the steps to it are played. */
  stepTo(progress: Progress | null, moves: boolean): void {
    const from = this.progress?.cursor ?? 0;
    if (moves && progress && this.painting.painter === "svg" && canMove(this.canvas)) {
      const before = numbersIn(this.canvas);
      this.motion = () => {
        if (this.scene) playStep(this, this.scene, progress, from, before);
      };
    } else this.motion = null;
    this.mark({ progress });
  }

  resize(size: Size, stays = false): void {
    const change = this.viewport.resize(size, stays);
    if (change === null) return;
    this.painting.refresh();
    if (change === "first") this.paint();
    else this.paintSoon();
  }

  /** Zoom about the focused or the selected node if it is in sight. */
  zoomBy(factor: number): void {
    const { focused, selected } = this.marks;
    const id = focused === null ? selected : (this.scene?.nodes[focused]?.id ?? null);
    this.viewport.zoomBy(factor, id);
  }

  /** Focus the graph, on this node if given. */
  focus(id: number | null = null): void {
    if (id !== null)
      this.mark({ focused: nearestCopy(this.scene, id, this.viewport.view, this.viewport.stage) });
    this.canvas.focus({ preventScroll: true });
  }

  destroy(): void {
    cancelAnimationFrame(this.request);
    window.clearTimeout(this.timer);
    this.hint.stop();
    this.tooltip.hide();
    this.viewport.destroy();
    this.stopWatching?.();
    this.cleanup.run();
  }

  /** Replace the drawn scene. */
  private take(scene: Scene, focused: number | null): void {
    this.scene = scene;
    this.marks = { ...this.marks, hovered: null, focused };
    this.keyboard.forget();
    this.tooltip.hide();
    this.painting.clear();
  }

  private frameFirst(): void {
    if (!this.scene || !this.viewport.first(this.scene)) return;
    this.painting.refresh();
    this.paint();
  }

  private paintSoon(): void {
    if (this.request) return;
    this.request = requestAnimationFrame(() => {
      this.request = 0;
      this.paint();
    });
  }

  private paint(): void {
    if (!this.scene || !this.viewport.isFramed) return;
    // Only now the element is in a widget.
    this.stopWatching ??= whenThemeChanges(this.element, () => {
      this.painting.refresh(true);
      this.paintSoon();
    });
    const { painting, canvas } = this;
    const { view, stage, sight } = this.viewport;
    const more = painting.paint(this.scene, this.marks, view, stage, sight);
    this.motion?.();
    this.motion = null;
    window.clearTimeout(this.timer);
    if (more === 0) this.paintSoon();
    else if (more !== null) this.timer = window.setTimeout(() => this.paintSoon(), more);
    canvas.dataset.detail = view.k < FAR ? "far" : "near";
    canvas.dataset.painter = painting.painter ?? "svg";
  }

  private listen(): void {
    const { cleanup, canvas, events } = this;
    new Pointer(
      this.painting.svg,
      {
        hitAt: (event) => this.hitAt(event),
        hover: (hit) => this.hover(hit),
        down: (event) => {
          // A finger may be scrolling the page; a tap focuses the graph.
          if (event.pointerType !== "touch") this.focusByPointer();
          if (event.button === 0) this.tooltip.hide();
        },
        pressed: (press) => events.pressed?.(press) ?? false,
        tapped: () => this.focusByPointer(),
        choose: (hit) => {
          this.viewport.keepStill();
          this.mark({ focused: hit?.node?.index ?? null });
          this.keyboard.forget();
          if (hit?.frame) events.select(null, [hit.frame]);
          else this.select(hit?.node ?? null);
        },
      },
      cleanup,
    );
    cleanup.listen(canvas, "focus", () => {
      if (this.pointerOver || !this.scene || this.marks.focused !== null) return;
      const stop = firstStop(this.scene, this.marks.selected);
      // A focus that returns by mouse, for example from a closed panel, needs no tooltip.
      if (canvas.matches(":focus-visible")) this.stopAt(stop);
      else this.mark({ focused: stop });
    });
    cleanup.listen<KeyboardEvent>(canvas, "keydown", (event) => {
      canvas.classList.remove("is-clicked");
      if (this.scene && this.keyboard.press(event, this.scene, this.marks)) event.preventDefault();
    });
  }

  private focusByPointer(): void {
    this.pointerOver = true;
    this.canvas.focus({ preventScroll: true });
    // Some browsers call a focus by script visible.
    this.canvas.classList.add("is-clicked");
    this.pointerOver = false;
  }

  private select(node: SceneNode | null): void {
    const module = node?.group?.paths ?? null;
    this.events.select(node && !module ? node.id : null, module);
  }

  /** Close one thing per press: the tooltip, a search, the selection; then leave the graph. */
  private escape(): void {
    if (this.tooltip.visible) {
      this.tooltip.hide();
      return;
    }
    if (this.events.escape()) return;
    if (this.marks.selected !== null || this.marks.module) this.events.select(null);
    else {
      this.mark({ focused: null });
      this.canvas.blur();
    }
  }

  private stopAt(index: number | null): void {
    if (index === null || !this.scene || !this.graph) return;
    this.mark({ focused: index });
    const node = this.scene.nodes[index];
    const { title, lines } = describeDrawn(this.graph, node, this.marks);
    this.live.textContent = [title, ...lines].join(", ");
    if (!this.viewport.revealBox(boxOf(node))) this.showTooltip(index);
  }

  private hover(hit: (Hit & { at: [number, number] }) | null): void {
    const node = hit?.node ?? null;
    const id = node?.id ?? null;
    const edge = hit && !node && !hit.frame ? this.edgeAt(hit.at) : null;
    this.canvas.classList.toggle(
      "is-pointing",
      (hit?.node ?? hit?.frame ?? hit?.folded ?? null) !== null,
    );
    if (id === this.marks.hovered && edge === this.overEdge) return;
    this.overEdge = edge;
    if (id !== this.marks.hovered) {
      this.mark({ hovered: id });
      this.events.hovered?.(id);
    }
    if (node !== null) this.showTooltip(node.index);
    else if (edge && hit && this.graph) {
      const [x, y] = hit.at;
      this.tooltip.show(
        describeEdge(this.graph, edge, this.marks),
        () => seenBox(this.viewport.view, { left: x, top: y, right: x, bottom: y }),
        () => this.viewport.sight,
      );
    } else this.tooltip.hide();
  }

  /** The edge at a place; null from afar, where many are near. */
  private edgeAt([x, y]: readonly [number, number]): SceneEdge | null {
    const { k } = this.viewport.view;
    return this.scene && k >= FAR ? edgeAt(this.scene, x, y, k) : null;
  }

  private showTooltip(index: number): void {
    const { scene, graph } = this;
    if (!scene || !graph) return;
    const box = boxOf(scene.nodes[index]);
    this.tooltip.show(
      describeDrawn(graph, scene.nodes[index], this.marks),
      () => seenBox(this.viewport.view, box),
      () => this.viewport.sight,
    );
  }

  private hitAt(event: Pointed): (Hit & { at: [number, number] }) | null {
    const { scene, painting } = this;
    if (!scene) return null;
    const { left, top } = painting.svg.getBoundingClientRect();
    const { k, x, y } = this.viewport.view;
    const at: [number, number] = [(event.clientX - left - x) / k, (event.clientY - top - y) / k];
    const heads = painting.painter === "canvas" ? painting.heads : null;
    const hit = hitAt(scene, event.target as Element, at, k, heads);
    return { ...hit, at };
  }

  /** The whole drawing at full detail without hover and focus; null before the first picture. */
  snapshot(label: string | null = null): Snapshot | null {
    const { scene, graph } = this;
    if (!scene || !graph) return null;
    const marks = { ...this.marks, hovered: null, focused: null };
    const gradients = this.painting.gradients.at(scene, marks);
    const copy = (part: SVGGElement) => [part.cloneNode(true) as SVGElement];
    const layers = { under: copy(this.underlay), over: copy(this.overlay) };
    return { graph, scene, marks, gradients, ...layers, label };
  }

  /** The gradients that are written once the pass is over. */
  get gradients(): readonly GradientLabel[] {
    const { scene, marks, painting } = this;
    const { progress } = marks;
    const over = progress && { ...progress, cursor: progress.recording.steps.length };
    return scene ? painting.gradients.at(scene, { ...marks, progress: over }) : [];
  }

  get underlay(): SVGGElement {
    return this.painting.underlay;
  }

  get overlay(): SVGGElement {
    return this.painting.overlay;
  }

  get widths(): Widths | null {
    return this.marks.widths;
  }

  /** Whether there are strips with bars, with blocks of unknown gradient, and with blocks that run forward again. */
  get strips(): Record<"bars" | "unknown" | "again", boolean> {
    const { scene, marks } = this;
    const drawn = scene?.nodes.filter(({ bar }) => bar) ?? [];
    const isKnown = ({ index }: SceneNode) => marks.tiles?.has(index) === true;
    return {
      bars: drawn.some(isKnown),
      unknown: drawn.some((node) => !isKnown(node)),
      again: drawn.some(({ bar }) => bar?.isAgain),
    };
  }

  get progress(): Progress | null {
    return this.marks.progress;
  }

  /** The signs of passes that were not recorded. */
  get seen(): Pick<Marks, "ran" | "held"> {
    return this.marks;
  }

  get hasFocus(): boolean {
    return focusIn(this.canvas) === this.canvas;
  }
}

/** The events of a drawing. */
export interface DrawingEvents {
  /** A node was selected, or a module by the paths of its box or head. */
  select(id: number | null, module?: readonly string[] | null): void;
  zoomed(scale: number): void;
  /** The view changed: by the reader, `fit`, `reveal` and others. */
  moved?(view: View): void;
  hovered?(id: number | null): void;
  /** A click or double click; true if it was handled: on a box, an open group or folded plumbing. */
  pressed?(press: Press): boolean;
  /** Whether a double click on the background leaves a box instead of zooming. */
  isInside?(): boolean;
  /** A key on a focused node; true if it opened or closed something. */
  keyed?(key: string, node: SceneNode): boolean;
  /** Escape: close something outside the drawing, for example a search; false if nothing was open. */
  escape(): boolean;
}
