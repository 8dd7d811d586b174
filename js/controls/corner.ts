import { element } from "../dom/element";
import type { Drawing } from "../interact/drawing";
import { emptiestCorner } from "../scene/corners";

/** What stands over a corner of the picture: the keys of its colours. It covers as little of it as it can. */
export class Corner {
  readonly element: HTMLElement;

  constructor(
    private readonly drawing: Drawing,
    private readonly keys: readonly HTMLElement[],
  ) {
    this.element = element("div", "gw-corner", ...keys);
  }

  /** Moves to the corner where least is drawn now. */
  place(): void {
    // To ask for a size, the page lays out all that has changed: only where a key is shown.
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
    // One below the other the keys are narrower, still more so with what is in them: they may fit where they cover less.
    for (let more = 1; more <= 2 && found.covers > 0; more++) {
      const next = best(more);
      if (next.covers < found.covers) [found, levels] = [next, more];
    }
    stack(levels);
    classList.toggle("is-top", found.top);
    classList.toggle("is-right", found.right);
  }
}
