/**
 * Replaces d3-transition and d3-interpolate in the bundle, which d3-zoom imports to animate a `transition()`. The camera moves by itself, so those 30 KB, colours and easings included, would never run.
 */
import { selection } from "d3-selection";

selection.prototype.interrupt = function () {
  return this;
};

export function interrupt(): void {}

/** Only transitions would call it. */
export const interpolateZoom = null;
