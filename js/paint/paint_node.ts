import type { SceneNode } from "../scene/scene";
import { barParts } from "./bars";
import type { Marks } from "./marks";
import { alarmParts, nodeParts, stepParts } from "./node_parts";
import { changeParts, makePart, type Part } from "./parts";
import { rankParts, stripAt } from "./rank_strips";
import { tileAt, tileParts, tintOf } from "./tiles";

/** A group's content, to detect changes. */
const painted = new WeakMap<SVGGElement, { node: SceneNode; parts: readonly Part[] }>();

/**
 * Draw a node into its group unless it is unchanged: with a name if seen from afar. The painter sets marks as classes
 * on the group.
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
  // A closed box is found by its path: an inner node's id would find it when the node is not drawn.
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

/** Write the step's number on a node's corner. */
export function paintStep(group: SVGGElement, node: SceneNode, step: string): void {
  const badge = group.querySelector(".gw-badge-step");
  if ((badge?.textContent ?? "") === step) return;
  badge?.remove();
  group.append(...stepParts(node, step).map(makePart));
}

/** Write the problem of a node's gradients on its corner; nothing for "". */
export function paintAlarm(group: SVGGElement, node: SceneNode, alarm: string): void {
  const badge = group.querySelector(".gw-badge-alarm");
  if ((badge?.textContent ?? "") === alarm) return;
  badge?.remove();
  group.append(...alarmParts(node, alarm).map(makePart));
}

/** Fill a bar up to its gradient. */
export function paintBar(group: SVGGElement, node: SceneNode, marks: Marks, isMap: boolean): void {
  if (!node.bar) return;
  const grad = tileAt(node, marks);
  const shown = grad ? `${grad.share} ${tintOf(node, marks)} ${isMap ? "" : grad.text}` : "";
  if ((group.dataset.bar ?? "") === shown) return;
  group.dataset.bar = shown;
  for (const old of group.querySelectorAll(".gw-bar-fill, .gw-bar-number")) old.remove();
  group.append(...barParts(node, marks, isMap).map(makePart));
}

/** Write the gradient of a closed box' parameters; null for none yet. */
export function paintTile(group: SVGGElement, node: SceneNode, norm: string | null): void {
  const { tile } = node.shape;
  if (!tile || tile.number === null) return;
  const number = group.querySelector(".gw-tile-number");
  if (number?.textContent === (norm ?? tile.rest)) return;
  const [made] = tileParts(node, norm).map(makePart);
  if (number) number.replaceWith(made);
  else group.append(made);
}

/** Draw a node's strip over ranks unless it is unchanged. */
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

/** The drawn strips, by their elements. */
const drawn = new WeakMap<Element, object>();
