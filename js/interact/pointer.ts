import type { Cleanup } from "../dom/element";
import type { Hit } from "./hit";
import type { Press } from "./press";

/** What a pointer does in a drawing. */
interface PointerActions {
  hitAt(event: MouseEvent): (Hit & { at: [number, number] }) | null;
  /** It moved onto something, or off everything. */
  hover(hit: (Hit & { at: [number, number] }) | null): void;
  /** A button went down somewhere. */
  down(event: PointerEvent): void;
  /** It was clicked or tapped, wherever. */
  tapped(): void;
  /** A click or double click; true if it opened or closed something. */
  pressed(press: Press): boolean;
  /** A click that is for nothing else: on a node, or on the ground. */
  choose(hit: Hit | null): void;
}

/** Turns mouse and touch into what is meant by them. */
export class Pointer {
  /** Whether the last click opened or closed something. */
  private pressed = false;
  /** What the last single click was on: a panel that it opened may have moved the picture under the pointer. */
  private first: (Hit & { at: [number, number] }) | null = null;
  /** What the button went down on: a picture that moves may have taken it away before the button comes up. */
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
      // d3-zoom keeps the click that ends a drag from getting here.
      if (!this.press(event)) actions.choose(this.first);
      this.aimed = null;
    });
    cleanup.listen<MouseEvent>(svg, "dblclick", (event) => this.press(event));
  }

  private press(event: MouseEvent): boolean {
    // What moves under the pointer at a first click must not take the second one.
    if (event.detail > 1 && this.pressed) return true;
    const isAgain = event.detail > 1 && this.first !== null;
    const hit = isAgain ? this.first : (this.aimed ?? this.actions.hitAt(event));
    if (!hit) return false;
    this.first = hit;
    this.pressed = this.actions.pressed({ ...hit, isDouble: event.type === "dblclick" });
    return this.pressed;
  }
}
