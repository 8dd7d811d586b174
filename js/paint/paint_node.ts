import type { SceneNode } from "../scene/scene";
import { barAt, barParts } from "./bars";
import type { Marks } from "./marks";
import { alarmParts, nodeParts, stepParts } from "./node_parts";
import { makePart } from "./parts";

/** Draws one node into its empty group. Marks are classes on the group, set by the painter. */
export function paintNode(this: SVGGElement, node: SceneNode): void {
  // A closed box goes by its path: the id of a node inside would find the box when the node itself is not drawn.
  if (node.group) this.dataset.group = node.group.paths[0];
  else this.dataset.node = String(node.id);
  this.dataset.index = String(node.index);
  this.dataset.kind = node.quiet ?? (node.leaf ? "leaf" : "op");
  this.setAttribute("transform", `translate(${node.x},${node.y})`);
  this.append(...nodeParts(node).map(makePart));
}

/** Writes on a node's corner the number of the step that runs it. */
export function paintStep(group: SVGGElement, node: SceneNode, step: number): void {
  const badge = group.querySelector(".gw-badge-step");
  if ((badge?.textContent ?? "") === (step > 0 ? String(step) : "")) return;
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
export function paintBar(group: SVGGElement, node: SceneNode, marks: Marks): void {
  if (!node.bar) return;
  const grad = barAt(node, marks);
  const shown = grad ? `${grad.share} ${grad.tint} ${grad.text}` : "";
  if ((group.dataset.bar ?? "") === shown) return;
  group.dataset.bar = shown;
  for (const old of group.querySelectorAll(".gw-bar-fill, .gw-bar-number")) old.remove();
  group.append(...barParts(node, marks).map(makePart));
}
