/**
 * Replaces d3-transition and d3-interpolate in the bundle, which d3-zoom imports for `transition()`. Our camera does
 * not use it, so this saves 30 KB.
 */
import { selection } from "d3-selection";

selection.prototype.interrupt = function () {
  return this;
};

export function interrupt(): void {}

export const interpolateZoom = null;
