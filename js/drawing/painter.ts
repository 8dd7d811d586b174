import { type EnterElement, type Selection, select } from "d3-selection";
import { flow } from "./direction";
import { edgeParts } from "./edge_parts";
import { batches } from "./far";
import type { GradientLabel } from "./gradients";
import type { Box } from "./grid";
import { labelParts } from "./label_parts";
import { edgeClass, type Marks, neighbours, nodeClass } from "./marks";
import { paintAlarm, paintNode, paintStep } from "./paint_node";
import { makePart } from "./parts";
import type { Scene, SceneEdge, SceneNode } from "./scene";
import { edgesOf, holds } from "./stages";

type Group = Selection<SVGGElement, unknown, null, undefined>;

/** How much is drawn of a node: everything, or from afar only outlines, all in a few paths. */
export type Detail = "near" | "far";

/** Draws a scene as SVG: only what lies in view, and from afar only as much as can be seen. */
export class SvgPainter {
  private readonly far: Group;
  private readonly edges: Group;
  private readonly gradients: Group;
  private readonly nodes: Group;

  private batchKey: unknown[] = [];
  private batches: [string, string][] = [];

  constructor(layer: SVGGElement) {
    const root = select(layer);
    this.far = root.append("g").attr("class", "gw-far");
    this.edges = root.append("g").attr("class", "gw-edges");
    this.gradients = root.append("g").attr("class", "gw-gradients");
    this.nodes = root.append("g").attr("class", "gw-nodes");
  }

  /** Draws what of the scene lies within `view`. */
  draw(
    scene: Scene,
    view: Box,
    detail: Detail,
    marks: Marks,
    gradients: readonly GradientLabel[],
  ): void {
    const near = neighbours(scene, marks);
    const hit = new Set(Array.from(marks.hits ?? [], (id) => scene.drawn[id]).flat());
    const isSpecial = ({ id, index }: SceneNode) =>
      id === marks.hovered ||
      scene.drawn[marks.selected ?? -1]?.includes(index) ||
      index === marks.focused ||
      near.has(id) ||
      (marks.hits !== null && hit.has(index));
    const nodes = scene.nodes.filter(
      (node) => inView(node, view) && (detail === "near" || isSpecial(node)),
    );
    const edges = scene.edges.filter(
      ({ bounds: [left, top, right, bottom], source, target }) =>
        left < view.right &&
        right > view.left &&
        top < view.bottom &&
        bottom > view.top &&
        (detail === "near" || isEndOf(scene.nodes[source], scene.nodes[target], marks)),
    );
    this.far
      .selectAll<SVGPathElement, [string, string]>("path")
      .data(detail === "far" ? this.batched(scene, view, marks) : [])
      .join("path")
      .attr("class", ([name]) => name)
      .attr("d", ([, data]) => data);
    this.far.classed("is-dim", marks.hits !== null);
    const heading = flow(scene.direction);
    this.edges
      .selectAll<SVGGElement, SceneEdge>("g.gw-edge")
      .data(edges, (edge) => `${edge.index}`)
      .join((enter) => paintEdges(enter, scene, heading))
      .attr("class", (edge) => edgeClass(edge, scene, marks));
    this.nodes
      .selectAll<SVGGElement, SceneNode>("g.gw-node")
      .data(nodes, (node) => `${node.index}`)
      .join((enter) => enter.append("g").each(paintNode))
      .attr("class", (node) => nodeClass(node, marks, near))
      .each(function (node) {
        paintAlarm(this, node, marks.alarms?.get(node.index) ?? "");
        paintStep(this, node, node.group ? 0 : (marks.progress?.recording.step[node.id] ?? 0));
      });
    this.gradients
      .classed("is-dim", marks.hits !== null)
      .selectAll<SVGGElement, GradientLabel>("g.gw-gradient")
      .data(detail === "near" ? gradients : [], (label) => `${label.key} ${label.text}`)
      .join((enter) =>
        enter.append("g").each(function (label) {
          this.append(...labelParts(label).map(makePart));
        }),
      )
      .attr("class", ({ alarming }) => (alarming ? "gw-gradient is-alarming" : "gw-gradient"))
      .attr("data-edge", ({ edge }) => edge)
      .attr("data-beside", ({ edge, nodes: [id] }) => (edge === null ? id : null));
  }

  /** Hovering changes no batch: they are kept until the view or what backward reached changes. */
  private batched(scene: Scene, view: Box, marks: Marks): [string, string][] {
    const key = [
      scene,
      view.left,
      view.top,
      view.right,
      view.bottom,
      marks.ran,
      marks.reached,
      marks.progress,
      marks.tint,
    ];
    if (key.some((part, i) => part !== this.batchKey[i])) {
      this.batchKey = key;
      this.batches = batches(scene, view, marks);
    }
    return this.batches;
  }

  /** Forgets everything drawn: what follows belongs to another scene. */
  clear(): void {
    this.batchKey = [];
    this.batches = [];
    for (const group of [this.far, this.edges, this.gradients, this.nodes])
      group.selectChildren().remove();
  }
}

function paintEdges(
  enter: Selection<EnterElement, SceneEdge, SVGGElement, unknown>,
  { nodes }: Scene,
  heading: [number, number],
): Selection<SVGGElement, SceneEdge, SVGGElement, unknown> {
  const groups = enter
    .append("g")
    .attr("data-edge", (edge) => edgesOf(edge)[0])
    .attr("data-index", (edge) => edge.index)
    .attr("data-source", (edge) => nodes[edge.source].id)
    .attr("data-target", (edge) => nodes[edge.target].id);
  groups.each(function (edge) {
    this.append(...edgeParts(edge, heading).map(makePart));
  });
  return groups;
}

function inView({ x, y, shape }: SceneNode, view: Box): boolean {
  return (
    x + shape.outerWidth / 2 > view.left &&
    x - shape.outerWidth / 2 < view.right &&
    y + shape.outerHeight / 2 > view.top &&
    y - shape.outerHeight / 2 < view.bottom
  );
}

function isEndOf(source: SceneNode, target: SceneNode, { hovered, selected }: Marks): boolean {
  return [source, target].some((end) => end.id === hovered || holds(end, selected));
}
