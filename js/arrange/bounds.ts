import type { Sized } from "../scene/sizes";
import type { Room } from "../scene/views";

/** Around a node, and of a frame's border and title, about, px and px². */
const GAP = 26;
const FRAME = 4000;

/** Parts of a room's sides that the area of a picture's boxes fills: at most, also in halves, hardly more than, usually. */
export const FILL = { most: 0.9, inHalves: 0.75, likely: 0.535, usual: 0.46 };

/** The scale that a picture has in a room if the area of its boxes fills this part of the sides. */
export function boundOf(
  { shapes, times, plan }: Sized,
  { width, height }: Room,
  fill = FILL.most,
): number {
  const area = shapes.reduce(
    (sum, { outerWidth, outerHeight }, v) =>
      sum + times[v] * (outerWidth + GAP) * (outerHeight + GAP),
    FRAME * plan.frames.length,
  );
  return fill * Math.sqrt((width * height) / area);
}
