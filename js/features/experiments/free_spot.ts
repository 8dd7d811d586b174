import type { Box } from "../../scene/grid";
import type { Size } from "../../scene/views";

/** From a line to the tools beside it, px. */
const GAP = 16;
const STEP = 8;
const FARTHEST = 160;

/**
 * The top middle of tools above or below a point, where they cover least of the boxes; the nearest of several such
 * places. All in px of the stage.
 */
export function freeSpot(
  at: { x: number; y: number },
  { width, height }: Size,
  stage: Size,
  boxes: readonly Box[],
): { x: number; y: number } {
  const x = Math.max(width / 2, Math.min(stage.width - width / 2, at.x));
  const coveredAt = (y: number) =>
    boxes.reduce((sum, { left, top, right, bottom }) => {
      const across = Math.min(right, x + width / 2) - Math.max(left, x - width / 2);
      const down = Math.min(bottom, y + height) - Math.max(top, y);
      return sum + Math.max(0, across) * Math.max(0, down);
    }, 0);
  let best = { x, y: Math.max(0, at.y - GAP - height) };
  let least = coveredAt(best.y);
  for (let away = GAP; away <= FARTHEST && least > 0; away += STEP)
    for (const y of [at.y - away - height, at.y + away]) {
      if (y < 0 || y + height > stage.height) continue;
      const covered = coveredAt(y);
      if (covered < least) [best, least] = [{ x, y }, covered];
    }
  return best;
}
