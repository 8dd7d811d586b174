import { pointAt } from "./curve";
import type { Place } from "./grid";
import { Obstacles } from "./obstacles";
import type { EdgeSign, Scene, SceneEdge } from "./scene";

const HEIGHT = 14;
const DIGIT = 6.2;
/** Where along an edge a sign may sit, best first; the argument is nearer to the start. */
const PLACES = [0.62, 0.55, 0.7, 0.48, 0.4, 0.78];
/** Other places on the line, for a sign that must be drawn. */
const ELSEWHERE = [0.3, 0.2, 0.86, 0.12, 0.92];

/** Between a sign and a node, px. */
const AWAY = 5;

/**
 * Write the number of each merged edge, before arguments, which may be left out. Beside module boxes, the sign of
 * folded plumbing appears with the pointer: at rest it looks like something that is missing.
 */
export function placeSigns(scene: Scene): void {
  const standing = scene.edges.filter(
    ({ merged }) => merged && (merged.tensors > 1 || merged.folded.length > 0),
  );
  if (standing.length === 0) return;
  const isBoxed = scene.frames.length > 0 || scene.nodes.some(({ group }) => group);
  const obstacles = new Obstacles(scene, AWAY);
  for (const edge of standing) {
    const { merged } = edge;
    if (!merged) continue;
    const numbers: [EdgeSign["kind"], number, string][] = [
      ["folded", merged.folded.length, `${merged.folded.length}`],
      ["count", merged.tensors, `×${merged.tensors}`],
    ];
    for (const [kind, number, text] of numbers) {
      if (number === 0 || (kind === "count" && (number === 1 || isShort(edge)))) continue;
      const width = Math.max(HEIGHT, DIGIT * text.length + 6);
      // Folded plumbing opens only at its sign, so that must be drawn; a count may be left out.
      const place =
        obstacles.findOnEdge(edge, width, PLACES, kind === "count" ? "line" : "on") ??
        (kind === "folded" ? onLine(edge, width, obstacles) : null);
      if (!place) continue;
      obstacles.add(place);
      merged.signs.push({
        ...place,
        height: HEIGHT,
        kind,
        text,
        ...(kind === "folded" && (isBoxed || isShort(edge)) && { isShy: true }),
      });
    }
  }
}

/** On a shorter line, px, a number would hide the line: the tooltip has it. */
const SHORT = 76;

function isShort({ bounds: [left, top, right, bottom] }: SceneEdge): boolean {
  return right - left + bottom - top < SHORT;
}

/** A place on the line, clear of boxes if possible; it may be on other lines. */
function onLine(edge: SceneEdge, width: number, obstacles: Obstacles): Place {
  const places = [...PLACES, ...ELSEWHERE].map((share): Place => {
    const [x, y] = pointAt(edge.curve, share);
    return { x, y, width, height: HEIGHT };
  });
  return places.find((place) => obstacles.isFree(place, edge.index, true)) ?? places[0];
}
