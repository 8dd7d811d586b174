import type { Sized } from "../scene/sizes";
import type { Room } from "../scene/views";

/** The largest share of a room's sides that boxes side by side take, without and with frames around them. */
const FILL = { plain: 0.75, framed: 0.46 };

/** The largest scale that a picture can have in a room, from the area of its boxes. */
export function boundOf({ shapes, times, plan }: Sized, { width, height }: Room): number {
  const area = shapes.reduce(
    (sum, { outerWidth, outerHeight }, v) => sum + times[v] * outerWidth * outerHeight,
    0,
  );
  const fill = plan.frames.length > 0 ? FILL.framed : FILL.plain;
  return fill * Math.sqrt((width * height) / area);
}
