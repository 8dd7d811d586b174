import type { SceneNode } from "../scene/scene";
import type { View } from "../scene/views";
import type { Press } from "./press";

/** What a drawing tells those around it. */
export interface DrawingEvents {
  /** A node, or the module of a closed box or of an open group's head by its paths. */
  select(id: number | null, module?: readonly string[] | null): void;
  zoomed(scale: number): void;
  /** The view changed: by the reader, or by `fit`, `reveal` and the like. */
  moved?(view: View): void;
  hovered?(id: number | null): void;
  /** A click or double click; true if it was meant for a box, an open group or folded plumbing and is done with. */
  pressed?(press: Press): boolean;
  /** Whether a double click on the ground leads back out of a box, rather than nearer. */
  isInside?(): boolean;
  /** A key while the keyboard is on this node; true if it opened or closed something. */
  keyed?(key: string, node: SceneNode): boolean;
  /** Escape: closes something outside the drawing, a search for example; false if there was nothing. */
  escape(): boolean;
}
