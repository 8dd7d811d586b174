import type { Hit } from "./hit";

/** A click or double click in the drawing. */
export interface Press extends Hit {
  /** Where, in the scene. */
  at: [number, number];
  isDouble: boolean;
}
