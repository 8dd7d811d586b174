import { element } from "../dom/element";
import { INPUT } from "../scene/card";
import type { Scene, SceneNode } from "../scene/scene";
import type { View } from "../scene/views";

/** Where on a node something is pinned; x, y is its upper left corner, relative to the node's centre, px of the scene. */
export interface Spot {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** An element placed at a node, scaled with it. */
export interface Pin {
  node: number;
  element: HTMLElement;
  spot(node: SceneNode): Spot;
  /** Whether it goes above its node when there is too little room below. */
  mayGoAbove?: boolean;
}

/** Where nodes are drawn smaller, nothing can be done with what is pinned to them. */
const LEAST_SCALE = 0.4;
/** Between a node and what goes above it. */
const GAP = 8;

/** Elements that stand over the picture, each at its node. */
export class Pins {
  readonly element = element("div", "gw-pins");
  private pins: readonly Pin[] = [];

  /** Shows these instead of those before. One that stays keeps the keyboard. */
  show(pins: readonly Pin[]): void {
    this.pins = pins;
    const wanted = new Set<Element>(pins.map((pin) => pin.element));
    for (const old of [...this.element.children]) if (!wanted.has(old)) old.remove();
    for (const pin of pins)
      if (pin.element.parentNode !== this.element) this.element.append(pin.element);
  }

  /** Puts them where their nodes are seen. */
  place(scene: Scene | null, { k, x, y }: View): void {
    // To ask for a height, the page lays out all that has changed: only where it is needed.
    const layer = this.element;
    for (const { element, node: id, spot, mayGoAbove } of this.pins) {
      const node = scene?.nodes[scene.drawn[id]?.[0] ?? -1];
      element.hidden = !node || node.group !== undefined || k < LEAST_SCALE;
      if (!node) continue;
      const at = spot(node);
      const left = k * (node.x + at.x) + x;
      element.style.width = `${at.width}px`;
      element.style.minHeight = `${at.height}px`;
      let top = k * (node.y + at.y) + y;
      const high = mayGoAbove ? k * element.offsetHeight : 0;
      if (mayGoAbove && top + high > layer.clientHeight)
        top = Math.max(0, k * (node.y - node.shape.height / 2 - GAP) + y - high);
      element.style.transform = `translate(${left}px, ${top}px) scale(${k})`;
    }
  }
}

/** Below the header of a leaf that adds up, or of a plain box, which have no cell. */
const BELOW = { width: 92, height: 24 };

/** The place of a node's value in its card, or below its box. */
export function valueSpot({ shape: { card, width, height } }: SceneNode): Spot {
  if (!card) return { x: -BELOW.width / 2, y: height / 2 + 3, ...BELOW };
  const top = -height / 2;
  if (card.rows.length > 0) return { x: 0, y: top, width: width / 2, height: card.header };
  if (card.size === "near") return { x: -width / 2, y: top + card.header, width, height: 22 };
  const { header } = card;
  return { x: -width / 2, y: top + header, width: width / 2, height: card.grad?.height ?? 62 };
}

/** Where the numbers of a tensor can be set: its box has room for so many rows of them. */
export function inputSpot({ shape: { card, width, height } }: SceneNode, rows: number): Spot {
  const { numberInputs } = card ?? {};
  if (numberInputs) {
    const { x, y, width: wide, height: high } = numberInputs;
    return { x: x - wide / 2, y: y - high / 2, width: wide, height: high };
  }
  const high = rows * INPUT.height + 2 * INPUT.rim;
  return { x: -width / 2, y: height / 2 - high, width, height: high };
}

/** The same of its gradient. */
export function gradSpot({ shape: { card, height } }: SceneNode): Spot {
  const grad = card?.grad;
  if (!grad) return { x: -BELOW.width / 2, y: height / 2 + 3, ...BELOW };
  const { width, height: high } = grad;
  return { x: grad.x - width / 2, y: grad.y - high / 2, width, height: high };
}

/** Just under a node. */
export function underSpot({ shape: { width, height } }: SceneNode): Spot {
  const wide = Math.max(width, 116);
  return { x: -wide / 2, y: height / 2 - 1, width: wide, height: 16 };
}
