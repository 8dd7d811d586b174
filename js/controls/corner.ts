import { element } from "../dom/element";
import type { Drawing } from "../interact/drawing";
import { emptiestCorner } from "../scene/corners";

/** The keys over a corner of the picture. They cover as little of it as possible. */
export class Corner {
  readonly element: HTMLElement;

  constructor(
    private readonly drawing: Drawing,
    private readonly keys: readonly HTMLElement[],
  ) {
    this.element = element("div", "gw-corner", ...keys);
  }

  /** Move to the corner that covers the least. */
  place(): void {
    // Measuring forces a layout, so measure only visible keys.
    if (this.keys.every((key) => key.hidden || key.childElementCount === 0)) return;
    const { scene, viewport } = this.drawing;
    const { classList } = this.element;
    if (!scene || viewport.stage.width === 0) return;
    const stack = (levels: number) => {
      classList.toggle("is-stacked", levels > 0);
      classList.toggle("is-tall", levels > 1);
    };
    const best = (levels: number) => {
      stack(levels);
      const { offsetWidth: width, offsetHeight: height } = this.element;
      return emptiestCorner(scene, viewport.aim, viewport.stage, { width, height });
    };
    let found = best(0);
    let levels = 0;
    // Stacked keys are narrower and may fit in a corner.
    for (let more = 1; more <= 2 && found.covers > 0; more++) {
      const next = best(more);
      if (next.covers < found.covers) [found, levels] = [next, more];
    }
    stack(levels);
    classList.toggle("is-top", found.top);
    classList.toggle("is-right", found.right);
  }
}
