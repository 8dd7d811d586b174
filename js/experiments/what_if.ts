import type { Channel } from "../channel";
import { type Cleanup, element, svgElement } from "../dom/element";
import type { Drawing } from "../interact/drawing";
import { edgeAt } from "../interact/edge_at";
import { halfway } from "../scene/curve";
import type { Measure } from "../text/measure";
import type { EditModel, GraphModel, ShareModel } from "../wire";
import { type EdgeId, Edges } from "./edits";
import { marksOver } from "./marks";
import { edgeTools, whatIfView } from "./what_if_view";

interface WhatIfEvents {
  /** An edge was selected or deselected. */
  picked(): void;
  goTo(node: number): void;
}

/** Change gradients on edges: the selected edge, its edits, and their effects. */
export class WhatIf {
  readonly element = element("div");
  private readonly layer = svgElement("g", "gw-what-if-marks");
  private readonly tools = element("div", { class: "gw-edge-bar", hidden: true });
  private edges: Edges | null = null;
  private edge: EdgeId | null = null;
  private lit: ShareModel | null = null;
  private selected: number | null = null;
  private isClosed = false;

  constructor(
    private readonly channel: Channel,
    private readonly drawing: Drawing,
    private readonly measure: Measure,
    private readonly events: WhatIfEvents,
    cleanup: Cleanup,
  ) {
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

  /** Whether it has content without a selection. */
  get isOpen(): boolean {
    return this.isOffered && !this.isClosed && (this.edge !== null || this.edits.length > 0);
  }

  private get isOffered(): boolean {
    return this.edges !== null && this.channel.get("edits") !== undefined;
  }

  private get edits(): readonly EditModel[] {
    return this.channel.get("edits") ?? [];
  }

  read(graph: GraphModel): void {
    if (this.edges?.graph === graph) return;
    this.edges = graph.static ? null : new Edges(graph);
    this.edge = this.lit = null;
    this.update();
  }

  select(node: number | null): void {
    if (node === this.selected) return;
    this.selected = node;
    this.lit = null;
    if (node !== null) this.edge = null;
    this.update();
  }

  /** Deselect the edge; false if none was selected. */
  leave(): boolean {
    if (this.edge === null) return false;
    this.edge = null;
    this.update();
    this.events.picked();
    return true;
  }

  close(): void {
    this.isClosed = true;
    this.leave();
  }

  edited(): void {
    this.isClosed = false;
    this.update();
  }

  update(): void {
    const { edges, edits, edge, selected, lit } = this;
    if (!edges || !this.isOffered) {
      this.element.replaceChildren();
      this.layer.replaceChildren();
      this.tools.hidden = true;
      return;
    }
    const answer = this.channel.get("what_if") ?? null;
    const shares = selected === null ? [] : (this.channel.get("_shares") ?? []);
    const offered = edge ? [edge] : selected === null ? [] : edges.into(selected);
    const actions = {
      edit: (list: EditModel[]) => this.channel.set("edits", list),
      light: (share: ShareModel | null) => {
        this.lit = share;
        this.update();
      },
      goTo: this.events.goTo,
    };
    const shown = { edges, offered, edits, answer, shares, lit };
    keepingFocus(this.element, () =>
      this.element.replaceChildren(
        ...(offered.length + edits.length > 0 ? [whatIfView(shown, actions)] : []),
      ),
    );
    keepingFocus(this.tools, () =>
      this.tools.replaceChildren(...(edge ? [edgeTools(edge, shown, actions, "picked")] : [])),
    );
    this.draw();
  }

  draw(): void {
    const { scene } = this.drawing;
    if (!scene || !this.edges || !this.isOffered) return;
    const answer = this.channel.get("what_if") ?? null;
    const { edges, edits, edge: selected, lit } = this;
    const marked = { edges, edits, answer, selected, lit };
    this.layer.replaceChildren(...marksOver(scene, marked, this.measure));
    this.place();
  }

  place(): void {
    const { scene, viewport } = this.drawing;
    const { view, stage } = viewport;
    const drawn = scene && this.edge && this.edges?.drawn(scene, this.edge);
    this.tools.hidden = !drawn;
    if (!drawn) return;
    const [x, y] = halfway(drawn.curve);
    const [left, top] = [view.x + view.k * x, view.y + view.k * y];
    const above = top > 70 ? top - 52 : top + 40;
    const inside = Math.max(80, Math.min(stage.width - 80, left));
    this.tools.style.transform = `translate(${Math.round(inside)}px, ${Math.round(above)}px)`;
  }

  private pickAt(event: MouseEvent): boolean {
    const { scene, canvas, viewport } = this.drawing;
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
    const edge = drawn && this.edges?.behind(drawn);
    if (!edge) {
      this.edge = null;
      this.update();
      return false;
    }
    this.edge = edge;
    this.isClosed = false;
    this.update();
    this.events.picked();
    return true;
  }
}

/** Replace an element's content; the part with the same key keeps the focus. */
function keepingFocus(host: HTMLElement, replace: () => void): void {
  const active = (host.getRootNode() as Document | ShadowRoot).activeElement as HTMLElement | null;
  const key = active && host.contains(active) ? active.dataset.focus : undefined;
  replace();
  if (key === undefined) return;
  for (const part of host.querySelectorAll<HTMLElement>("[data-focus]"))
    if (part.dataset.focus === key) part.focus({ preventScroll: true });
}
