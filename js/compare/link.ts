import type { Drawing } from "../interact/drawing";
import type { View } from "../scene/views";

/** Keep several drawings of the same size on the same view. */
export class LinkedViews {
  private following = false;

  /** React to a changed view of one drawing. */
  moved(from: Drawing, all: readonly Drawing[], view: View): void {
    if (this.following) return;
    this.following = true;
    try {
      for (const other of all)
        if (other !== from) other.viewport.look(view, from.viewport.isUntouched);
    } finally {
      this.following = false;
    }
  }

  /** Change each drawing separately, then show all of them like the one with the most nodes. */
  together(all: readonly Drawing[], change: (drawing: Drawing, i: number) => void): void {
    this.following = true;
    try {
      all.forEach(change);
      const size = (drawing: Drawing) => drawing.scene?.nodes.length ?? 0;
      const largest = all.reduce((best, one) => (size(one) > size(best) ? one : best));
      const { view, isUntouched } = largest.viewport;
      for (const other of all) if (other !== largest) other.viewport.look(view, isUntouched);
    } finally {
      this.following = false;
    }
  }
}
