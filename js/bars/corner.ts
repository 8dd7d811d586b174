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
    const { offsetWidth: width, offsetHeight: height, classList } = this.element;
    if (!scene || width === 0 || sight.stage.width === 0) return;
    const { top, right } = emptiestCorner(scene, sight.view, sight.stage, { width, height });
    classList.toggle("is-top", top);
    classList.toggle("is-right", right);
  }
}
