import { type Selection, select } from "d3-selection";
import type { SceneNode } from "./scene";
import { STUB_RADIUS } from "./shape";

/** Distance of the ring of the node that runs, px. */
const RING = 5;

/** Draws one node into its empty group. Marks are classes on the group, set by the painter. */
export function paintNode(this: SVGGElement, node: SceneNode): void {
  const { shape, leaf, root } = node;
  const { width, height, outline, flagHeight } = shape;
  const radius = !leaf ? 5 : root ? 14 : Math.min(height / 2, 21);
  const group = select<SVGGElement, SceneNode>(this)
    .attr("data-node", node.id)
    .attr("data-index", node.index)
    .attr("data-kind", leaf ? "leaf" : "op")
    .attr("transform", `translate(${node.x},${node.y})`);
  // First, so that it covers no stub.
  rect(group, "gw-run-ring", width, height, outline + RING, radius + outline + RING);
  for (const stub of shape.stubs) {
    const part = group.append("g").attr("class", "gw-stub");
    const [x1, y1, x2, y2] = stub.line;
    part.append("path").attr("d", `M${x1},${y1}L${x2},${y2}`);
    part.append("circle").attr("cx", stub.x).attr("cy", stub.y).attr("r", STUB_RADIUS);
    const text = part.append("text").attr("x", stub.text.x).attr("y", stub.text.y);
    text.append("tspan").attr("class", "gw-stub-argument").text(stub.argument);
    text.append("tspan").text(stub.rest);
  }
  rect(group, "gw-focus-ring", width, height, outline + 4, radius + outline + 4);
  if (root) rect(group, "gw-outline", width, height, outline, radius + outline);
  rect(group, "gw-box", width, height, 0, radius);
  if (flagHeight > 0) {
    group
      .append("path")
      .attr("class", "gw-flag")
      .attr("d", flagData(width, height, flagHeight, radius));
  }
  for (const { text, style, x, y, anchor } of shape.texts) {
    group
      .append("text")
      .attr("class", `gw-text gw-text-${style}`)
      .attr("text-anchor", anchor)
      .attr("x", x)
      .attr("y", y)
      .text(text);
  }
  paintBadges(group, node);
}

function rect(
  group: Selection<SVGGElement, SceneNode, null, undefined>,
  name: string,
  width: number,
  height: number,
  grow: number,
  radius: number,
): void {
  group
    .append("rect")
    .attr("class", name)
    .attr("x", -width / 2 - grow)
    .attr("y", -height / 2 - grow)
    .attr("width", width + 2 * grow)
    .attr("height", height + 2 * grow)
    .attr("rx", radius);
}

/** A strip along the top of the box, with the box's rounded corners. */
function flagData(width: number, height: number, flag: number, radius: number): string {
  const [x, y, r] = [width / 2, -height / 2, Math.min(radius, flag)];
  return `M${-x},${y + flag}V${y + r}Q${-x},${y} ${-x + r},${y}H${x - r}Q${x},${y} ${x},${y + r}V${y + flag}Z`;
}

/** The marks of a gradient that arrived and of freed buffers; style sheets show them when they apply. */
function paintBadges(
  group: Selection<SVGGElement, SceneNode, null, undefined>,
  { leaf, root, shape: { width, height } }: SceneNode,
): void {
  const x = width / 2 - 2;
  const y = height / 2 - 1;
  const pill = leaf && !root;
  const reached = group
    .append("g")
    .attr("class", "gw-badge-reached")
    .attr(
      "transform",
      pill ? `translate(${width / 2 - 8},${4 - height / 2})` : `translate(${x},${-y})`,
    );
  reached.append("circle").attr("r", 6.5);
  reached.append("path").attr("d", GRADIENT_MARK);
  const freed = group
    .append("g")
    .attr("class", "gw-badge-freed")
    .attr("transform", `translate(${x},${y})`);
  freed.append("circle").attr("r", 6.5);
  freed.append("path").attr("d", FREED_MARK);
  const step = group
    .append("g")
    .attr("class", "gw-badge-step")
    .attr("transform", `translate(${width / 2 - 5},${(pill ? 4 : -1) - height / 2})`);
  step.append("rect").attr("y", -7).attr("height", 14).attr("rx", 7);
  step.append("text").attr("y", 3.4);
}

/** A badge as wide as this hangs on its node's corner; a wider one grows inwards, not over the neighbour. */
const BADGE_OUT = 24;

/** Writes into a node's badge the number of the step that runs it. */
export function paintStep(group: SVGGElement, step: number): void {
  const badge = group.querySelector(".gw-badge-step");
  const text = badge?.querySelector("text");
  const written = step > 0 ? String(step) : "";
  if (!badge || !text || text.textContent === written) return;
  text.textContent = written;
  const width = 8 + 6 * Math.max(1, written.length);
  const left = Math.min(0, BADGE_OUT - width);
  text.setAttribute("x", String(left + width / 2));
  const pill = badge.querySelector("rect");
  pill?.setAttribute("x", String(left));
  pill?.setAttribute("width", String(width));
}

/** A nabla, the sign of a gradient. */
export const GRADIENT_MARK = "M-3.4,-2.4H3.4L0,3.6Z";
/** An empty box, struck out. */
export const FREED_MARK = "M-3.3,-3.3H3.3V3.3H-3.3ZM-5,5L5,-5";
