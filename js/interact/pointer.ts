import type { Cleanup } from "../dom/element";
import type { Hit, Press } from "./hit";

/** The actions of a pointer. */
interface PointerActions {
  hitAt(event: MouseEvent): (Hit & { at: [number, number] }) | null;
  /** The pointer entered or left a target. */
  hover(hit: (Hit & { at: [number, number] }) | null): void;
  /** A button went down. */
  down(event: PointerEvent): void;
  /** A click or tap anywhere. */
  tapped(): void;
  pressed(press: Press): boolean;
  choose(hit: Hit | null): void;
}

/** Interpret mouse and touch. */
export class Pointer {
  private pressed = false;
  /** The target of the last single click: the panel that it opened may have moved the picture. */
  private first: (Hit & { at: [number, number] }) | null = null;
  /** The target of the button press: a moving picture may remove it before the release. */
  private aimed: (Hit & { at: [number, number] }) | null = null;

  constructor(
    svg: SVGSVGElement,
    private readonly actions: PointerActions,
    cleanup: Cleanup,
  ) {
    cleanup.listen<PointerEvent>(svg, "pointermove", (event) => {
      if (event.buttons === 0) actions.hover(actions.hitAt(event));
    });
    cleanup.listen(svg, "pointerleave", () => actions.hover(null));
    cleanup.listen<PointerEvent>(svg, "pointerdown", (event) => {
      this.aimed = event.button === 0 ? actions.hitAt(event) : null;
      actions.down(event);
    });
    cleanup.listen<MouseEvent>(svg, "click", (event) => {
      actions.tapped();
      // d3-zoom stops the click that ends a drag.
      if (!this.press(event)) actions.choose(this.first);
      this.aimed = null;
    });
    cleanup.listen<MouseEvent>(svg, "dblclick", (event) => this.press(event));
  }

  private press(event: MouseEvent): boolean {
    // A node that moves under the pointer at a first click must not take the second one.
    if (event.detail > 1 && this.pressed) return true;
    const isAgain = event.detail > 1 && this.first !== null;
    const hit = isAgain ? this.first : (this.aimed ?? this.actions.hitAt(event));
    if (!hit) return false;
    this.first = hit;
    this.pressed = this.actions.pressed({ ...hit, isDouble: event.type === "dblclick" });
    return this.pressed;
  }
}
