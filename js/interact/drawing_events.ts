import type { SceneNode } from "../scene/scene";
import type { View } from "../scene/views";
import type { Press } from "./press";

/** The events of a drawing. */
export interface DrawingEvents {
  /** A node was selected, or a module by the paths of its box or head. */
  select(id: number | null, module?: readonly string[] | null): void;
  zoomed(scale: number): void;
  /** The view changed: by the reader, `fit`, `reveal` and others. */
  moved?(view: View): void;
  hovered?(id: number | null): void;
  /** A click or double click; true if it was handled: on a box, an open group or folded plumbing. */
  pressed?(press: Press): boolean;
  /** Whether a double click on the background leaves a box instead of zooming. */
  isInside?(): boolean;
  /** A key on a focused node; true if it opened or closed something. */
  keyed?(key: string, node: SceneNode): boolean;
  /** Escape: close something outside the drawing, for example a search; false if nothing was open. */
  escape(): boolean;
}
