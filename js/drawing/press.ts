import type { SceneNode } from "./scene";

/** A click or double click in the drawing. */
export interface Press {
  target: Element;
  /** The drawn node under the pointer. */
  node: SceneNode | null;
  /** Where, in the scene. */
  at: [number, number];
  isDouble: boolean;
}
