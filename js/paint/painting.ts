import { element, svgElement } from "../dom/element";
import { Remembered } from "../dom/remembered";
import type { SceneFrame } from "../scene/frame";
import type { Box } from "../scene/grid";
import type { Scene, SceneEdge, SceneNode } from "../scene/scene";
import { indexOf } from "../scene/scene_index";
import { contains, type Size, seen, type View } from "../scene/views";
import type { Measure } from "../text/measure";
import { settingOf } from "../theme/sheet";
import { Beacons } from "./beacons";
import { CanvasPainter } from "./canvas_painter";
import { isModule, neighbours, zerosFirst } from "./classes";
import { FrameLayer, headsIn } from "./frame_layer";
import { GradientLayer } from "./gradients";
import { Inks } from "./ink";
import {
  FAR,
  isClose,
  mapScale,
  NAME_SCALE,
  type PainterKind,
  painterFor,
} from "./level_of_detail";
import type { Marks } from "./marks";
import type { Minimap } from "./minimap";
import { SvgPainter } from "./painter";

/** The margin around the view that is drawn as elements, as shares of the stage: the largest that is not too many. */
const AROUND = [0.5, 0.25, 0.1, 0];
const MOST_AROUND = 450;

/** The drawn elements. */
interface Drawn {
  view: Box;
  scale: number;
  painter: PainterKind;
}

/** Paint a scene: as elements if few nodes are visible, on a canvas below them if many are. */
export class Painting {
  readonly svg = svgElement("svg", { class: "gw-svg", "aria-hidden": "true" });
  readonly canvas = new CanvasPainter();
  private readonly layer = svgElement("g", "gw-layer");
  /** The layers of others under and over the picture, in its coordinates. */
  readonly underlay = svgElement("g", "gw-underlay");
  readonly overlay = svgElement("g", "gw-overlay");
  painter: PainterKind | null = null;
  readonly gradients: GradientLayer;
  private readonly beacons = new Beacons();
  private readonly frames = new FrameLayer();
  private readonly inks = new Inks(() => settingOf(this.svg));
  private readonly elements: SvgPainter;
  private drawn: Drawn | null = null;
  /** Open groups with heads on the canvas. */
  heads: readonly SceneFrame[] = [];
  /** The inputs of the canvas' last picture. */
  private readonly shownInputs = new Remembered();

  constructor(
    measure: Measure,
    private readonly minimap: Minimap | null,
  ) {
    this.gradients = new GradientLayer(measure);
    this.svg.append(this.layer, this.beacons.element);
    this.layer.append(this.frames.element, this.underlay);
    this.elements = new SvgPainter(this.layer);
    this.layer.append(this.frames.heads, this.overlay);
  }

  /** Forget the drawing before another scene. */
  clear(): void {
    this.elements.clear();
    this.drawn = null;
    this.painter = null;
  }

  /** Redraw everything at the next `paint`, with new colours if the theme changed. */
  refresh(newTheme = false): void {
    this.drawn = null;
    if (!newTheme) return;
    this.inks.clear();
    this.shownInputs.forget();
  }

  /** Move the drawing to the view. */
  move({ k, x, y }: View): void {
    this.layer.setAttribute("transform", `translate(${x},${y}) scale(${k})`);
    this.layer.style.setProperty("--gw-unscale", String(1 / k));
    this.layer.style.setProperty("--gw-name-scale", String(NAME_SCALE / k));
    this.beacons.place({ k, x, y }, k < FAR);
  }

  /** Draw the missing visible parts, of which nothing covers those in `sight`; returns after how many ms to continue, null for never. */
  paint(scene: Scene, marks: Marks, view: View, stage: Size, sight: Size): number | null {
    const { minimap } = this;
    const ratio = globalThis.devicePixelRatio || 1;
    minimap?.place(scene, marks, view, sight);
    const more = this.paintView(scene, marks, view, stage, ratio);
    const { overview } = this.canvas;
    if (overview) minimap?.draw(overview, marks, ratio);
    return more;
  }

  private paintView(
    scene: Scene,
    marks: Marks,
    view: View,
    stage: Size,
    ratio: number,
  ): number | null {
    const index = indexOf(scene);
    const visible = index.count(seen(view, stage, 0));
    const { canvas } = this;
    let wanted = painterFor(view.k, visible, this.painter);
    if (wanted === "canvas" && canvas.pen === null) wanted = "svg";
    canvas.look(view);
    let more: number | null = null;
    if (wanted === "canvas" || this.painter === "canvas") {
      this.tell(scene, marks);
      this.heads = headsIn(scene, seen(view, stage, 0), view.k);
      if (canvas.paint(view, stage, ratio, this.heads, marks.module)) more = 0;
      // Elements are made when the view rests, and kept until the canvas is ready.
      if (wanted === "svg" && canvas.isMoving) {
        wanted = "canvas";
        more = 0;
      } else if (
        wanted === "canvas" &&
        this.isDrawn(scene, "svg", view, stage) &&
        !canvas.isReady(view, stage)
      ) {
        wanted = "svg";
        more = 0;
      }
    }
    if (wanted === "svg" && this.minimap?.isShown && canvas.pen !== null) {
      this.tell(scene, marks);
      more ??= canvas.drawWhole();
    }
    if (this.painter !== wanted) this.hand(wanted);
    this.svg.classList.toggle("is-map", view.k < mapScale(scene));
    this.svg.classList.toggle("is-close", isClose(view.k));
    if (!this.isDrawn(scene, wanted, view, stage))
      this.drawElements(scene, marks, view, stage, wanted);
    return more;
  }

  private hand(painter: PainterKind): void {
    this.painter = painter;
    this.drawn = null;
    this.canvas.element.hidden = painter === "svg";
    if (painter === "svg") this.canvas.rest();
  }

  private isDrawn(scene: Scene, painter: PainterKind, view: View, stage: Size): boolean {
    const { drawn } = this;
    if (drawn?.painter !== painter || view.k > drawn.scale * 3) return false;
    const isNear = Math.min(view.k, drawn.scale) >= mapScale(scene);
    // From afar the room for names depends on the scale.
    const most = painter === "canvas" ? 1.25 : isNear ? Number.POSITIVE_INFINITY : 1.06;
    return (
      contains(drawn.view, seen(view, stage, 0)) &&
      view.k < drawn.scale * most &&
      view.k > drawn.scale / most
    );
  }

  private drawElements(
    scene: Scene,
    marks: Marks,
    view: View,
    stage: Size,
    painter: PainterKind,
  ): void {
    const index = indexOf(scene);
    const isNear = painter === "svg";
    const boxes = AROUND.map((share) => seen(view, stage, share));
    const around = isNear
      ? (boxes.find((box) => index.count(box) <= MOST_AROUND) ?? boxes[boxes.length - 1])
      : boxes[0];
    const { nodes, edges } = isNear
      ? {
          nodes: index.nodesIn(around).map((i) => scene.nodes[i]),
          edges: zerosFirst(index.edgesIn(around), scene, marks).map((i) => scene.edges[i]),
        }
      : highlighted(scene, marks);
    const gradients = view.k < mapScale(scene) ? [] : this.gradients.at(scene, marks);
    this.elements.draw({ scene, nodes, edges, marks, gradients, scale: view.k });
    if (isNear) this.frames.draw(scene, around, view.k, marks.module);
    else this.frames.clear();
    this.beacons.show(scene, marks);
    this.beacons.place(view, view.k < FAR);
    this.drawn = { view: around, scale: view.k, painter };
  }

  /** Pass new content to the canvas. */
  tell(scene: Scene, marks: Marks): void {
    const { ran, reached, flowed, freed, progress, hits, selected } = marks;
    const { tint, tiles, ranks, alarms } = marks;
    const { underlay } = this;
    const under = underlay.childElementCount > 0 ? selected : null;
    const flows = [ran, reached, flowed, freed, progress];
    const inputs = [scene, ...flows, hits, tint, tiles, ranks, alarms, under];
    if (!this.shownInputs.isNew(...inputs)) return;
    this.canvas.show({ scene, marks: withoutHighlights(marks), inks: this.inks, underlay });
  }
}

export function stageElement(painting: Painting, attributes: Record<string, string | number>) {
  return element("div", { class: "gw-canvas", ...attributes }, [
    painting.canvas.element,
    painting.svg,
  ]);
}

/** The most highlights for a leaf with thousands of uses: elements are slow. */
const MOST = 300;

/** The elements above the canvas: hover and focus. */
function highlighted(scene: Scene, marks: Marks): { nodes: SceneNode[]; edges: SceneEdge[] } {
  const { hovered, selected, focused, hit } = marks;
  const ends = new Set([hovered, selected].flatMap((id) => scene.drawn[id ?? -1] ?? []));
  const edges = scene.edges
    .filter(({ source, target }) => ends.has(source) || ends.has(target))
    .slice(0, MOST);
  const near = [...neighbours(scene, marks)].slice(0, MOST);
  const indices = new Set([...near, hit].flatMap((id) => scene.drawn[id ?? -1] ?? []));
  for (const index of ends) indices.add(index);
  if (focused !== null) indices.add(focused);
  for (const node of scene.nodes) if (isModule(node, marks)) indices.add(node.index);
  return { nodes: [...indices].sort((a, b) => a - b).map((index) => scene.nodes[index]), edges };
}

/** The marks without hover and focus, which a canvas keeps. */
export function withoutHighlights(marks: Marks): Marks {
  return { ...marks, hovered: null, selected: null, module: null, focused: null, hit: null };
}
