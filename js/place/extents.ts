import type { NodeShape } from "../scene/node_shape";

/** The size of a box along the flow, with its room, px. */
export function along({ outerWidth, outerHeight }: NodeShape, horizontal: boolean): number {
  return horizontal ? outerWidth : outerHeight;
}

/** The size of a box across the flow, px. */
export function across({ width, height }: NodeShape, horizontal: boolean): number {
  return horizontal ? height : width;
}
