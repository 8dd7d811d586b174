import { pointAt } from "./curve";
import { Obstacles } from "./obstacles";
import type { EdgeSign, Place, Scene, SceneEdge } from "./scene";

const HEIGHT = 14;
const DIGIT = 6.2;
/** Where along an edge a sign may sit, best first; the argument is nearer to the start. */
const PLACES = [0.62, 0.55, 0.7, 0.48, 0.4, 0.78];

/** Writes its numbers on every edge that stands for several; before arguments, which can also do without a place. */
export function placeSigns(scene: Scene): void {
  const standing = scene.edges.filter(
    ({ merged }) => merged && (merged.tensors > 1 || merged.folded.length > 0),
  );
  if (standing.length === 0) return;
  const obstacles = new Obstacles(scene);
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
      // Folded plumbing can be opened only where its sign is, so it must be drawn; a count may be left out.
      const place =
        obstacles.findOnEdge(edge, width, PLACES) ??
        (kind === "folded" ? onLine(edge, width, obstacles) : null);
      if (!place) continue;
      obstacles.add(place);
      merged.signs.push({
        ...place,
        height: HEIGHT,
        kind,
        text,
        ...(isShort(edge) && { isShy: true }),
      });
    }
  }
}

/** On a line shorter than this, px, a number would leave nothing: the tooltip shows it. */
const SHORT = 76;

function isShort({ bounds: [left, top, right, bottom] }: SceneEdge): boolean {
  return right - left + bottom - top < SHORT;
}

/** A place on the line itself, clear of boxes if there is one: lines may be crossed. */
function onLine(edge: SceneEdge, width: number, obstacles: Obstacles): Place {
  const places = PLACES.map((share): Place => {
    const [x, y] = pointAt(edge.curve, share);
    return { x, y, width, height: HEIGHT };
  });
  return places.find((place) => obstacles.isFree(place, edge.index, true)) ?? places[0];
}
