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
    const { scene, sight } = this.drawing;
    const { classList } = this.element;
    if (!scene || sight.stage.width === 0) return;
    const best = (isStacked: boolean) => {
      classList.toggle("is-stacked", isStacked);
      const { offsetWidth: width, offsetHeight: height } = this.element;
      return emptiestCorner(scene, sight.view, sight.stage, { width, height });
    };
    let found = best(false);
    // One below the other the keys are narrower, and may fit where they cover less.
    if (found.covers > 0) {
      const stacked = best(true);
      if (stacked.covers < found.covers) found = stacked;
      else classList.remove("is-stacked");
    }
    classList.toggle("is-top", found.top);
    classList.toggle("is-right", found.right);
  }
}
