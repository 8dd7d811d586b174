import { element } from "../dom/element";
import { INPUT } from "../scene/card";
import type { Place } from "../scene/grid";
import type { SceneNode } from "../scene/scene";
import type { Drawing } from "./drawing";

/** An element at a node, scaled with it. */
export interface Pin {
  node: number;
  element: HTMLElement;
  /** Its upper left corner and size, relative to the node's centre, px of the scene. */
  spot(node: SceneNode): Place;
  /** Whether it stays on the stage: above its node if there is too little room below, and beside it. */
  mayGoAbove?: boolean;
}

/** Below this scale, pins are hidden. */
const LEAST_SCALE = 0.4;
/** Between a node and a pin above it. */
const GAP = 8;

export class Pins {
  readonly element = element("div", "gw-pins");
  private pins: readonly Pin[] = [];

  constructor(private readonly drawing: Drawing) {
    drawing.element.append(this.element);
  }

  /** Replace the pins. A pin that stays keeps the focus. */
  show(pins: readonly Pin[]): void {
    this.pins = pins;
    const wanted = new Set<Element>(pins.map((pin) => pin.element));
    for (const old of [...this.element.children]) if (!wanted.has(old)) old.remove();
    for (const pin of pins)
      if (pin.element.parentNode !== this.element) this.element.append(pin.element);
    this.place();
  }

  /** Move pins to their nodes' places on the stage. */
  place(): void {
    const { scene } = this.drawing;
    const { k, x, y } = this.drawing.viewport.view;
    // Measuring forces a layout, so measure only when needed.
    const layer = this.element;
    for (const { element, node: id, spot, mayGoAbove } of this.pins) {
      const node = scene?.nodes[scene.drawn[id]?.[0] ?? -1];
      element.hidden = !node || node.group !== undefined || k < LEAST_SCALE;
      if (!node) continue;
      const at = spot(node);
      const wished = k * (node.x + at.x) + x;
      const last = layer.clientWidth - k * at.width;
      const left = mayGoAbove ? Math.max(0, Math.min(last, wished)) : wished;
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

/** Below the header of a leaf without a cell, or of a plain box. */
const BELOW = { width: 92, height: 24 };

/** The spot of a node's value: in its card, or below its box. */
export function valueSpot({ shape: { card, height } }: SceneNode): Place {
  if (card) return cornerOf(card.value);
  return { x: -BELOW.width / 2, y: height / 2 + 3, ...BELOW };
}

/** The spot of a tensor's inputs, in the room that its box leaves for them. */
export function inputSpot({ shape: { card, width, height } }: SceneNode, rows: number): Place {
  const { numberInputs } = card ?? {};
  if (numberInputs) return cornerOf(numberInputs);
  const high = rows * INPUT.height + 2 * INPUT.rim;
  return { x: -width / 2, y: height / 2 - high, width, height: high };
}

/** The spot of a node's gradient. */
export function gradSpot({ shape: { card, height } }: SceneNode): Place {
  if (card?.grad) return cornerOf(card.grad);
  return { x: -BELOW.width / 2, y: height / 2 + 3, ...BELOW };
}

/** A place by its upper left corner. */
function cornerOf({ x, y, width, height }: Place): Place {
  return { x: x - width / 2, y: y - height / 2, width, height };
}

/** Just under a node. */
export function underSpot({ shape: { width, height } }: SceneNode): Place {
  const wide = Math.max(width, 116);
  return { x: -wide / 2, y: height / 2 - 1, width: wide, height: 16 };
}
