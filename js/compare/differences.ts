import { svgElement } from "../dom/element";
import { pathData } from "../scene/curve";
import type { SceneNode } from "../scene/scene";
import { HALO, type PaneScene, type Tag } from "./scenes";

/** The most tags; other nodes still have a coloured ground. */
const MOST_TAGS = 400;
/** The most outlines that can be clicked; more are drawn as one path. */
const MOST_GHOSTS = 400;

/** Draw the differences under and over a pane: nodes that this graph lacks, and nodes that others lack. */
export function paintDifferences(
  underlay: SVGGElement,
  overlay: SVGGElement,
  pane: PaneScene,
  selectSlot: (slot: number) => void,
): void {
  underlay.replaceChildren(
    svgElement("path", {
      class: "gw-only-edge",
      d: pane.onlyEdges.map((edge) => pathData(edge.curve)).join(""),
    }),
    svgElement("path", {
      class: "gw-only-ground",
      d: pane.only.map(({ node }) => boxData(node, HALO + node.shape.outline)).join(""),
    }),
    svgElement("path", {
      class: "gw-ghost-edge",
      d: pane.ghostEdges.map((edge) => pathData(edge.curve)).join(""),
    }),
    ...(pane.ghosts.length > MOST_GHOSTS
      ? [
          svgElement("path", {
            class: "gw-ghosts",
            d: pane.ghosts.map((node) => boxData(node, 0)).join(""),
          }),
        ]
      : pane.ghosts.map((node) => ghost(node, selectSlot))),
  );
  const tagged = [...pane.only, ...pane.noted].slice(0, MOST_TAGS);
  overlay.replaceChildren(...tagged.map(({ tag }) => tagPart(tag)));
}

/** Mark the outline of the selected node in a pane that lacks it. */
export function markGhost(underlay: SVGGElement, slot: number | null): void {
  for (const part of underlay.querySelectorAll<SVGElement>(".gw-ghost"))
    part.classList.toggle("is-selected", part.dataset.slot === String(slot));
}

function ghost(node: SceneNode, selectSlot: (slot: number) => void): SVGElement {
  const title = svgElement("title");
  title.textContent = "Not in this graph";
  const outline = svgElement(
    "path",
    { class: "gw-ghost", "data-slot": node.id, d: boxData(node, 0) },
    title,
  );
  outline.addEventListener("click", (event) => {
    event.stopPropagation();
    selectSlot(node.id);
  });
  return outline;
}

function tagPart({ words, x, y, width, height }: Tag): SVGElement {
  const text = svgElement("text", { x, y: y + 3.4 });
  text.textContent = words;
  return svgElement(
    "g",
    "gw-only-tag",
    svgElement("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 3 }),
    text,
  );
}

/** A rounded rectangle around a node's box. */
function boxData({ x, y, leaf, root, shape }: SceneNode, grow: number): string {
  const width = shape.width + 2 * grow;
  const height = shape.height + 2 * grow;
  const r = Math.min(height / 2, (leaf ? (root ? 14 : 21) : 5) + grow);
  const [left, top] = [x - width / 2, y - height / 2];
  const corner = (dx: number, dy: number) => `a${r},${r} 0 0 1 ${dx},${dy}`;
  return (
    `M${left + r},${top}h${width - 2 * r}${corner(r, r)}v${height - 2 * r}${corner(-r, r)}` +
    `h${2 * r - width}${corner(-r, -r)}v${2 * r - height}${corner(r, -r)}z`
  );
}
