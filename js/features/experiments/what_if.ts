import { element, keepingFocus, svgElement } from "../../dom/element";
import { edgeAt } from "../../interact/hit";
import type { GradientLabel } from "../../paint/gradient_label";
import { halfway } from "../../scene/curve";
import { type EdgeId, edgesInto } from "../../scene/edge_id";
import { boxOf } from "../../scene/find";
import type { Box } from "../../scene/grid";
import type { Size } from "../../scene/views";
import { seenBox } from "../../scene/views";
import { isOver } from "../../steps/recording";
import { type PartView, VIEW_PARTS, type ViewPart } from "../../view/view_part";
import type { EditModel, GraphModel, ShareModel } from "../../wire";
import { edgeBehind, lineOf } from "./edits";
import { marksOver } from "./marks";
import { edgeTools, whatIfView } from "./what_if_view";
import { editedWords } from "./words";

const NONE: readonly EditModel[] = [];

/** Change gradients on edges: the selected edge, its edits, and their effects. */
class WhatIf implements ViewPart {
  readonly traits = ["selected", "edits", "effect", "_shares", "_edits_blocked"] as const;
  readonly element = element("div");
  readonly title = "Gradients changed on their way";
  private readonly layer = svgElement("g", "gw-what-if-marks");
  private readonly tools = element("div", { class: "gw-edge-bar", hidden: true });
  private graph: GraphModel | null = null;
  private edge: EdgeId | null = null;
  private lit: ShareModel | null = null;
  private selected: number | null = null;
  /** The edits for which the panel was closed. */
  private closedAt: readonly EditModel[] | null = null;

  constructor(private readonly view: PartView) {
    const { drawing, cleanup } = view;
    drawing.overlay.append(this.layer);
    drawing.element.append(this.tools);
    // Runs before the drawing treats a click beside all nodes as a click on the background.
    cleanup.listen<MouseEvent>(
      drawing.canvas,
      "click",
      (event) => {
        if (this.pickAt(event)) event.stopPropagation();
      },
      { capture: true },
    );
  }

  get section(): this {
    return this;
  }

  get isOpen(): boolean {
    const { edits } = this;
    return this.isOffered && edits !== this.closedAt && (this.edge !== null || edits.length > 0);
  }

  private get isOffered(): boolean {
    return (
      this.graph !== null && !this.graph.static && this.view.channel.get("edits") !== undefined
    );
  }

  private get edits(): readonly EditModel[] {
    return this.view.channel.get("edits") ?? NONE;
  }

  /** Deselect the edge; false if none was selected. */
  left(): boolean {
    if (this.edge === null) return false;
    this.edge = null;
    this.show();
    this.view.deselect();
    return true;
  }

  closed(): void {
    this.closedAt = this.edits;
    this.left();
  }

  note(): ReturnType<NonNullable<ViewPart["note"]>> {
    const { edits } = this;
    const answer = this.view.channel.get("effect") ?? null;
    return edits.length > 0 ? { of: "what if", words: editedWords(edits, answer) } : null;
  }

  update(): void {
    const graph = this.view.graph();
    const selected = this.view.channel.get("selected");
    if (graph && this.graph !== graph) {
      this.graph = graph;
      this.edge = this.lit = null;
    }
    if (selected !== this.selected) this.lit = null;
    if (selected !== this.selected && selected !== null) this.edge = null;
    this.selected = selected;
    this.show();
  }

  private show(): void {
    const { graph, edits, edge, selected, lit } = this;
    if (!graph || !this.isOffered) {
      this.element.replaceChildren();
      this.layer.replaceChildren();
      this.tools.hidden = true;
      return;
    }
    const { channel, goTo } = this.view;
    const answer = channel.get("effect") ?? null;
    const shares = selected === null ? [] : (channel.get("_shares") ?? []);
    const offered = edge ? [edge] : selected === null ? [] : edgesInto(graph, selected);
    const actions = {
      edit: (list: EditModel[]) => channel.set("edits", list),
      light: (share: ShareModel | null) => {
        this.lit = share;
        this.show();
      },
      goTo,
    };
    const blocked = channel.get("_edits_blocked") ?? null;
    const shown = { graph, offered, edits, answer, shares, lit, blocked };
    keepingFocus(this.element, () =>
      this.element.replaceChildren(
        ...(offered.length + edits.length > 0 ? [whatIfView(shown, actions)] : []),
      ),
    );
    keepingFocus(this.tools, () =>
      this.tools.replaceChildren(...(edge ? [edgeTools(edge, shown, actions, "picked")] : [])),
    );
    this.drawn();
  }

  drawn(): void {
    const { drawing, channel, measure } = this.view;
    const { scene } = drawing;
    if (!scene || !this.graph || !this.isOffered) return;
    const answer = channel.get("effect") ?? null;
    const { graph, edits, edge: selected, lit } = this;
    const { progress } = drawing;
    const isLast = progress !== null && isOver(progress);
    const cells = isLast ? drawing.gradients.filter(isNodesCell) : [];
    const marked = { graph, edits, answer, selected, lit, cells };
    this.layer.replaceChildren(...marksOver(scene, marked, measure));
    this.moved();
  }

  stepped(): void {
    this.drawn();
  }

  moved(): void {
    const { scene, viewport } = this.view.drawing;
    const { view, sight } = viewport;
    const drawn = scene && this.edge && this.graph && lineOf(this.graph, scene, this.edge);
    this.tools.hidden = !drawn;
    if (!drawn) return;
    const [x, y] = halfway(drawn.curve);
    const at = { x: view.x + view.k * x, y: view.y + view.k * y };
    const boxes = scene.nodes.map((node) => seenBox(view, boxOf(node)));
    const spot = freeSpot(at, TOOLS, sight, boxes);
    this.tools.style.transform = `translate(${Math.round(spot.x)}px, ${Math.round(spot.y)}px)`;
  }

  private pickAt(event: MouseEvent): boolean {
    const { scene, canvas, viewport } = this.view.drawing;
    const { view } = viewport;
    if (!scene || !this.isOffered || event.button !== 0) return false;
    // A canvas has no element per node, and is too far away to select a line.
    if (canvas.dataset.painter === "canvas") return false;
    const on = event.target as Element;
    if (on.closest(".gw-node, .gw-frame-head, .gw-edge-folded, .gw-edge-bar")) return false;
    const { left, top } = canvas.getBoundingClientRect();
    const x = (event.clientX - left - view.x) / view.k;
    const y = (event.clientY - top - view.y) / view.k;
    const drawn = edgeAt(scene, x, y, view.k);
    const edge = drawn && edgeBehind(this.graph as GraphModel, drawn);
    if (!edge) {
      this.edge = null;
      this.show();
      return false;
    }
    this.edge = edge;
    this.closedAt = null;
    this.show();
    this.view.deselect();
    const [at, to] = halfway(drawn.curve);
    // The panel may have opened over the line.
    const around = { left: at - BESIDE, top: to - BESIDE, right: at + BESIDE, bottom: to + BESIDE };
    viewport.whenQuiet(() => viewport.revealBox(around));
    return true;
  }
}

/** Room around the middle of a picked line, px of the scene. */
const BESIDE = 60;
/** The size of the tools, px. */
const TOOLS = { width: 196, height: 36 };

/** Whether a gradient is the whole one of a node, in its cell. */
function isNodesCell({ cell, until }: GradientLabel): boolean {
  return until === undefined && /^(full|near|share|total)$/.test(cell ?? "");
}

VIEW_PARTS.push((view) => new WhatIf(view));

/** From a line to the tools beside it, px. */
const GAP = 16;
const STEP = 8;
const FARTHEST = 160;

/**
 * The top middle of tools above or below a point, where they cover least of the boxes; the nearest of several such
 * places. All in px of the stage.
 */
export function freeSpot(
  at: { x: number; y: number },
  { width, height }: Size,
  stage: Size,
  boxes: readonly Box[],
): { x: number; y: number } {
  const x = Math.max(width / 2, Math.min(stage.width - width / 2, at.x));
  const coveredAt = (y: number) =>
    boxes.reduce((sum, { left, top, right, bottom }) => {
      const across = Math.min(right, x + width / 2) - Math.max(left, x - width / 2);
      const down = Math.min(bottom, y + height) - Math.max(top, y);
      return sum + Math.max(0, across) * Math.max(0, down);
    }, 0);
  let best = { x, y: Math.max(0, at.y - GAP - height) };
  let least = coveredAt(best.y);
  for (let away = GAP; away <= FARTHEST && least > 0; away += STEP)
    for (const y of [at.y - away - height, at.y + away]) {
      if (y < 0 || y + height > stage.height) continue;
      const covered = coveredAt(y);
      if (covered < least) [best, least] = [{ x, y }, covered];
    }
  return best;
}
