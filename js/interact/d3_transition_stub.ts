/**
 * Stands in the bundle for d3-transition and d3-interpolate, which d3-zoom imports to animate what is told to
 * `transition()`. The camera moves by itself, so those 30 KB, colours and easings included, would never run.
 */
import { selection } from "d3-selection";

selection.prototype.interrupt = function () {
  return this;
};

/** There is no transition to stop. */
export function interrupt(): void {}

/** Only transitions would call it. */
export const interpolateZoom = null;
