import { type EnterElement, type Selection, select } from "d3-selection";
import { say } from "../dom/element";
import { flow } from "../layout/direction";
import { linksAt } from "../scene/links";
import { edgesOf } from "../scene/members";
import type { Scene, SceneEdge, SceneLink, SceneNode } from "../scene/scene";
import { edgeClass, isRinged, neighbours, nodeClass } from "./classes";
import { edgeParts, headAtRing, linkParts } from "./edge_parts";
import type { GradientLabel } from "./gradient_label";
import { gradientClass, gradientParts } from "./label_parts";
import { mapName, mapScale } from "./level_of_detail";
import type { Marks } from "./marks";
import { markParts, nodeParts } from "./node_parts";
import { changeParts, makePart, type Part } from "./parts";

type Group = Selection<SVGGElement, unknown, null, undefined>;

interface DrawnScene {
  scene: Scene;
  nodes: readonly SceneNode[];
  edges: readonly SceneEdge[];
  marks: Marks;
  gradients: readonly GradientLabel[];
  scale: number;
}

/** Draw given nodes and edges of a scene as SVG. */
export class SvgPainter {
  private readonly edges: Group;
  private readonly links: Group;
  private readonly gradients: Group;
  private readonly nodes: Group;
  private readonly heads: Group;

  constructor(layer: SVGGElement) {
    const root = select(layer);
    this.edges = root.append("g").attr("class", "gw-edges");
    this.links = root.append("g").attr("class", "gw-links");
    this.nodes = root.append("g").attr("class", "gw-nodes");
    this.heads = root.append("g").attr("class", "gw-ring-heads");
    // Above the nodes, because a card has a cell for its gradient.
    this.gradients = root.append("g").attr("class", "gw-gradients");
  }

  draw({ scene, nodes, edges, marks, gradients, scale }: DrawnScene): void {
    const isMap = scale < mapScale(scene);
    const near = neighbours(scene, marks);
    const heading = flow(scene.direction);
    this.edges
      .selectAll<SVGGElement, SceneEdge>("g.gw-edge")
      .data(edges, (edge) => `${edge.index}`)
      .join((enter) => paintEdges(enter, scene, heading))
      .each(function (edge) {
        say(this, "class", edgeClass(edge, scene, marks));
      });
    const isDim = marks.hits !== null;
    for (const group of [this.links, this.gradients])
      group.node()?.classList.toggle("is-dim", isDim);
    this.links
      .selectAll<SVGGElement, SceneLink>("g.gw-link")
      .data(linksAt(scene, marks.selected), ({ source, target }) => `${source} ${target}`)
      .join((enter) =>
        enter.append("g").each(function (link) {
          this.append(...linkParts(link).map(makePart));
        }),
      )
      .attr("class", "gw-link");
    this.nodes
      .selectAll<SVGGElement, SceneNode>("g.gw-node")
      .data(nodes, (node) => `${node.index}`)
      .join((enter) => enter.append("g"))
      .each(function (node) {
        say(this, "class", nodeClass(node, marks, near));
        paintNode(this, node, marks, isMap ? mapName(node, scale) : null);
      });
    const ringed = edges.filter((edge) => isRinged(edge, scene, marks));
    this.heads
      .node()
      ?.replaceChildren(...ringed.map((edge) => makePart(headAtRing(edge, heading))));
    this.gradients
      .selectAll<SVGGElement, GradientLabel>("g.gw-gradient")
      .data(gradients, ({ key }) => key)
      .join((enter) => enter.append("g"))
      .each(function (label) {
        paintGradient(this, label);
      });
  }

  clear(): void {
    for (const group of [this.edges, this.links, this.heads, this.gradients, this.nodes])
      group.selectChildren().remove();
  }
}

function paintEdges(
  enter: Selection<EnterElement, SceneEdge, SVGGElement, unknown>,
  { nodes, isStatic }: Scene,
  heading: [number, number],
): Selection<SVGGElement, SceneEdge, SVGGElement, unknown> {
  const groups = enter
    .append("g")
    .attr("data-edge", (edge) => edgesOf(edge)[0])
    .attr("data-index", (edge) => edge.index)
    .attr("data-source", (edge) => nodes[edge.source].id)
    .attr("data-target", (edge) => nodes[edge.target].id);
  groups.each(function (edge) {
    this.append(...edgeParts(edge, heading, isStatic).map(makePart));
  });
  return groups;
}

/** The content of a gradient's group. */
const written = new WeakMap<SVGGElement, { label: GradientLabel; parts: readonly Part[] }>();

function paintGradient(group: SVGGElement, label: GradientLabel): void {
  const before = written.get(group);
  if (before?.label === label) return;
  const parts = gradientParts(label);
  const { edge, nodes } = label;
  say(group, "class", gradientClass(label));
  if (edge !== null) say(group, "data-edge", String(edge));
  else if (nodes.length > 0) say(group, "data-beside", String(nodes[0]));
  written.set(group, { label, parts });
  if (!before || !changeParts(group, before.parts, parts))
    group.replaceChildren(...parts.map(makePart));
}

/** A node's group as it was drawn: the node itself and its marks, each as parts. */
interface Drawn {
  node: SceneNode;
  name: string | null;
  own: readonly Part[];
  added: readonly Part[];
}

const drawn = new WeakMap<SVGGElement, Drawn>();

/** Draw a node with its marks into its group, as far as it changed; with a name if seen from afar. */
function paintNode(group: SVGGElement, node: SceneNode, marks: Marks, name: string | null): void {
  const before = drawn.get(group);
  const isSame = before?.node === node && before.name === name;
  const own = isSame ? before.own : nodeParts(node, name);
  const added = markParts(node, marks, name !== null);
  drawn.set(group, { node, name, own, added });
  const parts = [...own, ...added];
  const isInPlace = before?.name === name && isAt(before.node, node);
  if (isInPlace && changeParts(group, [...before.own, ...before.added], parts)) return;
  if (isSame) {
    for (const old of [...group.children].slice(own.length)) old.remove();
    group.append(...added.map(makePart));
    return;
  }
  // A closed box is found by its path: an inner node's id would find it when the node is not drawn.
  if (node.group) group.dataset.group = node.group.paths[0];
  else group.dataset.node = String(node.id);
  group.dataset.index = String(node.index);
  group.dataset.kind = node.quiet ?? (node.leaf ? "leaf" : "op");
  group.setAttribute("transform", `translate(${node.x},${node.y})`);
  group.replaceChildren(...parts.map(makePart));
}

function isAt({ id, x, y }: SceneNode, other: SceneNode): boolean {
  return id === other.id && x === other.x && y === other.y;
}
