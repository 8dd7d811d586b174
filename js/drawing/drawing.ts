import type { Hold } from "../groups/hold";
import type { Progress } from "../steps/recording";
import type { Measure } from "../text/measure";
import { Cleanup, element, KEEP_KEYS, svgElement } from "../ui/dom";
import type { GraphModel } from "../wire";
import { Beacons } from "./beacons";
import { Camera, isFocused } from "./camera";
import { describeDrawn } from "./describe_box";
import type { Direction } from "./direction";
import { boxOf, nearestCopy, nodeAtPoint } from "./find";
import { glide } from "./flip";
import { FrameLayer } from "./frame_layer";
import { GradientLayer } from "./gradients";
import type { Box } from "./grid";
import { Keyboard } from "./keyboard";
import { type Marks, NO_MARKS } from "./marks";
import { type Detail, SvgPainter } from "./painter";
import type { Press } from "./press";
import { buildScene, type Scene, type SceneNode } from "./scene";
import { Tooltip } from "./tooltip";
import {
  centreView,
  contains,
  firstView,
  fitView,
  heldView,
  revealView,
  type Size,
  seen,
  seenBox,
  type View,
} from "./views";
import { firstStop } from "./walk";
import { WheelHint } from "./wheel_hint";

export interface DrawingEvents {
  select(id: number | null): void;
  zoomed(scale: number): void;
  /** The view changed: by the reader, or by `fit`, `reveal` and the like. */
  moved?(view: View): void;
  hovered?(id: number | null): void;
  /** A click or double click; true if it was meant for a box, an open group or folded plumbing and is done with. */
  pressed?(press: Press): boolean;
  /** A key while the keyboard is on this node; true if it opened or closed something. */
  keyed?(key: string, node: SceneNode): boolean;
  /** Escape: closes something outside the drawing, a search for example; false if there was nothing. */
  escape(): boolean;
}

/** Below this scale no text can be read and outlines are drawn in bulk. */
const FAR = 0.4;
/** Room around a node that is followed, for where its gradients go next, px of the scene. */
const AROUND = 110;

/** The drawn graph: one focusable element with an SVG that can be zoomed, clicked and walked. */
export class Drawing {
  readonly element: HTMLElement;
  readonly canvas: HTMLElement;
  scene: Scene | null = null;
  private graph: GraphModel | null = null;
  private marks: Marks = NO_MARKS;
  private size: Size = { width: 0, height: 0 };
  /** What has been drawn, a little more than is seen. */
  private drawn: { view: Box; detail: Detail; scale: number } | null = null;
  private framed = false;
  /** The first view, as long as nobody has moved it. */
  private home: View | null = null;
  private frame = 0;
  private pointerOver = false;
  /** Whether the last click opened or closed something. */
  private pressed = false;
  private readonly svg = svgElement("svg", { class: "gw-svg", "aria-hidden": "true" });
  private readonly layer = svgElement("g", { class: "gw-layer" });
  /** What lies under and over the picture, in its coordinates; for marks that are not the drawing's own. */
  readonly underlay = svgElement("g", { class: "gw-underlay" });
  readonly overlay = svgElement("g", { class: "gw-overlay" });
  private readonly live = element("div", {
    class: "gw-visually-hidden",
    "aria-live": "polite",
    role: "status",
  });
  private readonly hint = new WheelHint();
  private readonly beacons = new Beacons();
  private readonly frames = new FrameLayer();
  private readonly gradients: GradientLayer;
  private readonly tooltip = new Tooltip();
  private readonly painter: SvgPainter;
  private readonly camera: Camera;
  private readonly keyboard = new Keyboard({
    keyed: (key, node) => this.events.keyed?.(key, node) ?? false,
    select: (node) => this.events.select(node.id),
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
    private readonly measure: Measure,
  ) {
    this.gradients = new GradientLayer(measure);
    this.svg.append(this.layer, this.beacons.element);
    this.canvas = element(
      "div",
      {
        class: "gw-canvas",
        tabindex: 0,
        role: "application",
        "aria-roledescription": "graph",
        ...KEEP_KEYS,
      },
      this.svg,
    );
    this.element = element(
      "div",
      { class: "gw-stage" },
      this.canvas,
      this.hint.element,
      this.tooltip.element,
      this.live,
    );
    this.layer.append(this.frames.element, this.underlay);
    this.painter = new SvgPainter(this.layer);
    this.layer.append(this.frames.heads, this.overlay);
    this.camera = new Camera(this.svg, this.canvas, {
      moved: ({ k, x, y }) => {
        this.layer.setAttribute("transform", `translate(${x},${y}) scale(${k})`);
        this.layer.style.setProperty("--gw-unscale", String(1 / k));
        this.beacons.place(this.camera.view, k < FAR);
        this.tooltip.hide();
        this.paintSoon();
        this.events.zoomed(k);
        this.events.moved?.({ k, x, y });
      },
      wheelIgnored: () => this.hint.show(),
      isTaken: (event) =>
        (event.target as Element).closest(".gw-frame-head, .gw-edge-folded") !== null ||
        this.nodeAt(event) !== null,
    });
    this.listen();
  }

  /** Draws another graph, or the same in another direction, from its first view; as a prepared scene if one is given. */
  show(graph: GraphModel, direction: Direction, prepared?: Scene): void {
    this.graph = graph;
    this.scene = prepared ?? buildScene(graph, direction, this.measure);
    this.marks = { ...this.marks, hovered: null, focused: null };
    this.keyboard.forget();
    this.tooltip.hide();
    this.painter.clear();
    this.drawn = null;
    this.framed = false;
    this.frameFirst();
  }

  /** Draws another picture of the same graph. What is held stays where it is seen; without, it is a first view. */
  replace(scene: Scene, hold: Hold | null): void {
    const before = this.scene && { scene: this.scene, view: this.camera.view };
    const { focused } = this.marks;
    const id = focused === null ? undefined : before?.scene.nodes[focused]?.id;
    this.scene = scene;
    this.marks = { ...this.marks, hovered: null, focused: scene.drawn[id ?? -1]?.[0] ?? null };
    this.keyboard.forget();
    this.tooltip.hide();
    this.painter.clear();
    this.drawn = null;
    if (!before || !hold || !this.framed) {
      this.framed = false;
      this.frameFirst();
      return;
    }
    this.camera.resize(scene, this.size);
    this.camera.go(heldView(before.view, hold), false);
    this.paint();
    glide(this.layer, before, scene, this.camera.view);
  }

  /** Changes some marks and repaints. */
  mark(marks: Partial<Marks>): void {
    this.marks = { ...this.marks, ...marks };
    this.drawn = null;
    this.paintSoon();
  }

  /** Tells the drawing its size in px. What was in the middle stays there. */
  resize(size: Size): void {
    if (size.width === 0 || size.height === 0) return;
    const before = this.size;
    if (before.width === size.width && before.height === size.height) return;
    this.size = size;
    if (!this.scene) return;
    if (!this.framed || this.camera.view === this.home) {
      this.frameFirst();
      return;
    }
    this.camera.resize(this.scene, size);
    const { k, x, y } = this.camera.view;
    this.camera.go(
      { k, x: x + (size.width - before.width) / 2, y: y + (size.height - before.height) / 2 },
      false,
    );
    this.drawn = null;
    this.paintSoon();
  }

  fit(animate = true): void {
    if (this.scene) this.camera.go(fitView(this.scene, this.size), animate);
  }

  /** What is seen now. */
  get view(): View {
    return this.camera.view;
  }

  /** Shows exactly this; `untouched` if it is still a first view, to be found anew when the size changes. */
  look(view: View, untouched: boolean): void {
    this.framed = true;
    this.camera.go(view, false);
    if (untouched) this.home = this.camera.view;
  }

  /** Whether this is still the first view. */
  get isUntouched(): boolean {
    return this.camera.view === this.home;
  }

  /** Size of the window to the picture, px. */
  get stage(): Size {
    return this.size;
  }

  zoomBy(factor: number): void {
    this.camera.zoomBy(factor);
  }

  /**
   * Brings a node into view if it is outside, or too far away to be recognised; the copy nearest to what is seen, if
   * it has several.
   */
  reveal(id: number, centre = false): void {
    const { aim } = this.camera;
    const index = nearestCopy(this.scene, id, aim, this.size);
    if (index === null || !this.scene) return;
    const node = this.scene.nodes[index];
    const tooFar = aim.k < FAR;
    const view =
      centre || tooFar ? centreView(aim, node, this.size) : revealView(aim, boxOf(node), this.size);
    if (view !== aim) this.camera.go(view);
  }

  /** Moves just so far, at the same scale, that the node and what it passes on are in view. */
  follow(id: number): void {
    const { aim } = this.camera;
    const index = nearestCopy(this.scene, id, aim, this.size);
    if (index === null || !this.scene || !this.framed) return;
    const { width, height } = this.scene;
    const { left, top, right, bottom } = boxOf(this.scene.nodes[index]);
    // Nothing stands outside the scene: a view of all of it stays where it is.
    const around = {
      left: Math.max(0, left - AROUND),
      top: Math.max(0, top - AROUND),
      right: Math.min(width, right + AROUND),
      bottom: Math.min(height, bottom + AROUND),
    };
    const view = revealView(aim, around, this.size);
    if (view !== aim) this.camera.go(view);
  }

  /** Puts the keyboard into the graph, on this node if one is given. */
  focus(id: number | null = null): void {
    if (id !== null)
      this.mark({ focused: nearestCopy(this.scene, id, this.camera.view, this.size) });
    this.canvas.focus({ preventScroll: true });
  }

  destroy(): void {
    cancelAnimationFrame(this.frame);
    this.hint.stop();
    this.tooltip.hide();
    this.camera.destroy();
    this.cleanup.run();
  }

  private frameFirst(): void {
    if (!this.scene || this.size.width === 0) return;
    this.framed = true;
    this.camera.resize(this.scene, this.size);
    this.camera.go(firstView(this.scene, this.size), false);
    this.home = this.camera.view;
    this.drawn = null;
    this.paint();
  }

  private paintSoon(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  private paint(): void {
    if (!this.scene || !this.framed) return;
    const { view } = this.camera;
    const detail: Detail = view.k < FAR ? "far" : "near";
    const known = this.drawn;
    if (
      known &&
      known.detail === detail &&
      contains(known.view, seen(view, this.size, 0)) &&
      view.k < known.scale * 3
    ) {
      return;
    }
    const around = seen(view, this.size);
    const gradients = detail === "near" ? this.gradients.at(this.scene, this.marks.progress) : [];
    this.painter.draw(this.scene, around, detail, this.marks, gradients);
    this.frames.draw(this.scene, around, view.k, detail === "far");
    this.beacons.show(this.scene, this.marks);
    this.beacons.place(view, detail === "far");
    this.canvas.dataset.detail = detail;
    this.drawn = { view: around, detail, scale: view.k };
  }

  private listen(): void {
    const { cleanup, canvas, svg } = this;
    cleanup.listen<PointerEvent>(svg, "pointermove", (event) => {
      if (event.buttons === 0) this.hover(this.nodeAt(event));
    });
    cleanup.listen(svg, "pointerleave", () => this.hover(null));
    cleanup.listen<PointerEvent>(svg, "pointerdown", (event) => {
      this.pointerOver = true;
      canvas.focus({ preventScroll: true });
      this.pointerOver = false;
      if (event.button === 0) this.tooltip.hide();
    });
    cleanup.listen<MouseEvent>(svg, "click", (event) => {
      // d3-zoom keeps the click that ends a drag from getting here.
      if (this.press(event)) return;
      const index = this.nodeAt(event);
      this.mark({ focused: index });
      this.keyboard.forget();
      const node = index === null ? null : this.scene?.nodes[index];
      this.events.select(!node || node.group ? null : node.id);
    });
    cleanup.listen<MouseEvent>(svg, "dblclick", (event) => this.press(event));
    cleanup.listen(canvas, "focus", () => {
      if (this.pointerOver || !this.scene || this.marks.focused !== null) return;
      const stop = firstStop(this.scene, this.marks.selected);
      // Focus that comes back by mouse, from a closed panel for example, needs no tooltip.
      if (canvas.matches(":focus-visible")) this.stopAt(stop);
      else this.mark({ focused: stop });
    });
    cleanup.listen<KeyboardEvent>(canvas, "keydown", (event) => {
      if (this.scene && this.keyboard.press(event, this.scene, this.marks)) event.preventDefault();
    });
  }

  private press(event: MouseEvent): boolean {
    const { scene, events } = this;
    if (!scene || !events.pressed) return false;
    // What moves under the pointer at a first click must not take the second one.
    if (event.detail > 1 && this.pressed) return true;
    const index = this.nodeAt(event);
    this.pressed = events.pressed({
      target: event.target as Element,
      node: index === null ? null : scene.nodes[index],
      at: this.placeOf(event),
      isDouble: event.type === "dblclick",
    });
    return this.pressed;
  }

  /** Closes one thing per press: the tooltip, a search, the selection; then leaves the graph. */
  private escape(): void {
    if (this.tooltip.visible) {
      this.tooltip.hide();
      return;
    }
    if (this.events.escape()) return;
    if (this.marks.selected !== null) this.events.select(null);
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
    const { aim } = this.camera;
    const view = revealView(aim, boxOf(node), this.size);
    if (view !== aim) this.camera.go(view);
    else this.showTooltip(index);
  }

  private hover(index: number | null): void {
    const id = index === null || !this.scene ? null : this.scene.nodes[index].id;
    if (id === this.marks.hovered) return;
    this.mark({ hovered: id });
    this.events.hovered?.(id);
    this.canvas.classList.toggle("is-pointing", id !== null);
    if (index === null) this.tooltip.hide();
    else this.showTooltip(index);
  }

  private showTooltip(index: number): void {
    const { scene, graph } = this;
    if (!scene || !graph) return;
    const box = boxOf(scene.nodes[index]);
    this.tooltip.show(
      describeDrawn(graph, scene.nodes[index], this.marks),
      () => seenBox(this.camera.view, box),
      () => this.size,
    );
  }

  /** The drawn node under the pointer; from afar, where nodes are no elements, by its place. */
  private nodeAt(event: MouseEvent): number | null {
    if (!this.scene) return null;
    const group = (event.target as Element).closest<SVGGElement>(".gw-node");
    if (group) return Number(group.dataset.index);
    if (this.drawn?.detail !== "far") return null;
    return nodeAtPoint(this.scene, ...this.placeOf(event), 4 / this.camera.view.k);
  }

  /** Where in the scene the pointer is. */
  private placeOf(event: MouseEvent): [number, number] {
    const { left, top } = this.svg.getBoundingClientRect();
    const { k, x, y } = this.camera.view;
    return [(event.clientX - left - x) / k, (event.clientY - top - y) / k];
  }

  get progress(): Progress | null {
    return this.marks.progress;
  }

  get hasFocus(): boolean {
    return isFocused(this.canvas);
  }
}
