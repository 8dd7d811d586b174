import type { SceneNode } from "../scene/scene";
import { barParts } from "./bars";
import type { Marks } from "./marks";
import { alarmParts, nodeParts, stepParts } from "./node_parts";
import { changeParts, makePart, type Part } from "./parts";
import { rankParts, stripAt } from "./rank_strips";
import { tileAt, tileParts, tintOf } from "./tiles";

/** What is in a group: with other numbers a node is another one. */
const painted = new WeakMap<SVGGElement, { node: SceneNode; parts: readonly Part[] }>();

/**
 * Draws one node into its group, unless it is drawn: with a name if it is seen from afar. Marks are classes on the group,
 * set by the painter.
 */
export function paintNode(group: SVGGElement, node: SceneNode, name: string | null): void {
  const before = painted.get(group);
  const isNamed = (group.dataset.name ?? null) === name;
  if (before?.node === node && isNamed) return;
  const parts = nodeParts(node, name);
  painted.set(group, { node, parts });
  if (before && isNamed && isAt(before.node, node) && changeParts(group, before.parts, parts))
    return;
  group.replaceChildren();
  delete group.dataset.bar;
  if (name === null) delete group.dataset.name;
  else group.dataset.name = name;
  // A closed box goes by its path: the id of a node inside would find the box when the node itself is not drawn.
  if (node.group) group.dataset.group = node.group.paths[0];
  else group.dataset.node = String(node.id);
  group.dataset.index = String(node.index);
  group.dataset.kind = node.quiet ?? (node.leaf ? "leaf" : "op");
  group.setAttribute("transform", `translate(${node.x},${node.y})`);
  group.append(...parts.map(makePart));
}

function isAt({ id, x, y }: SceneNode, other: SceneNode): boolean {
  return id === other.id && x === other.x && y === other.y;
}

/** Writes on a node's corner the number of the step that runs it. */
export function paintStep(group: SVGGElement, node: SceneNode, step: string): void {
  const badge = group.querySelector(".gw-badge-step");
  if ((badge?.textContent ?? "") === step) return;
  badge?.remove();
  group.append(...stepParts(node, step).map(makePart));
}

/** Writes on a node's corner what is wrong with its gradients; nothing for "". */
export function paintAlarm(group: SVGGElement, node: SceneNode, alarm: string): void {
  const badge = group.querySelector(".gw-badge-alarm");
  if ((badge?.textContent ?? "") === alarm) return;
  badge?.remove();
  group.append(...alarmParts(node, alarm).map(makePart));
}

/** Fills a bar as far as its gradient goes. */
export function paintBar(group: SVGGElement, node: SceneNode, marks: Marks, isMap: boolean): void {
  if (!node.bar) return;
  const grad = tileAt(node, marks);
  const shown = grad ? `${grad.share} ${tintOf(node, marks)} ${isMap ? "" : grad.text}` : "";
  if ((group.dataset.bar ?? "") === shown) return;
  group.dataset.bar = shown;
  for (const old of group.querySelectorAll(".gw-bar-fill, .gw-bar-number")) old.remove();
  group.append(...barParts(node, marks, isMap).map(makePart));
}

/** Writes on a closed box what arrived at its parameters; null for nothing yet. */
export function paintTile(group: SVGGElement, node: SceneNode, norm: string | null): void {
  const { tile } = node.shape;
  if (!tile || tile.number === null) return;
  const number = group.querySelector(".gw-tile-number");
  if (number?.textContent === (norm ?? tile.rest)) return;
  const [made] = tileParts(node, norm).map(makePart);
  if (number) number.replaceWith(made);
  else group.append(made);
}

/** Draws a node's strip over the ranks of a run, unless it is drawn. */
export function paintRanks(group: SVGGElement, node: SceneNode, marks: Marks): void {
  if (!node.shape.ranks) return;
  const strip = stripAt(node, marks);
  const old = group.querySelector(".gw-ranks");
  if (old && strip !== null && drawn.get(old) === strip) return;
  old?.remove();
  for (const made of rankParts(node, marks).map(makePart)) {
    if (strip) drawn.set(made, strip);
    group.append(made);
  }
}

/** What was drawn as a strip, by its element. */
const drawn = new WeakMap<Element, object>();
