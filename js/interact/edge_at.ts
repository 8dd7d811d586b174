import { pointAt } from "../scene/curve";
import type { Scene, SceneEdge } from "../scene/scene";
import { indexOf } from "../scene/scene_index";

/** The distance within which a pointer is on a line, px of the stage. */
const NEAR = 7;
const PIECES = 12; // straight ones, per segment of a curve

/** The line at a point of the scene, seen at this scale; null for none. */
export function edgeAt(scene: Scene, x: number, y: number, scale: number): SceneEdge | null {
  const reach = NEAR / scale;
  const around = { left: x - reach, top: y - reach, right: x + reach, bottom: y + reach };
  let best: SceneEdge | null = null;
  let least = reach;
  for (const index of indexOf(scene).edgesIn(around)) {
    const edge = scene.edges[index];
    const away = distance(edge.curve, x, y);
    if (away > least) continue;
    best = edge;
    least = away;
  }
  return best;
}

function distance(curve: ArrayLike<number>, x: number, y: number): number {
  const pieces = PIECES * Math.max(1, (curve.length - 2) / 6);
  let least = Number.POSITIVE_INFINITY;
  let [ax, ay] = pointAt(curve, 0);
  for (let i = 1; i <= pieces; i++) {
    const [bx, by] = pointAt(curve, i / pieces);
    const [dx, dy] = [bx - ax, by - ay];
    const long = dx * dx + dy * dy;
    const t = long === 0 ? 0 : Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / long));
    least = Math.min(least, Math.hypot(x - ax - t * dx, y - ay - t * dy));
    [ax, ay] = [bx, by];
  }
  return least;
}
