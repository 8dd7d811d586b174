import type { GradientLabel } from "../paint/gradient_label";
import { pointAt } from "../scene/curve";
import { HEADER } from "../scene/frame";
import { type Box, boxIn, overlap } from "../scene/grid";
import { extentOf } from "../scene/obstacles";
import type { Scene } from "../scene/scene";

/** Sampled points per piece of a line. */
const POINTS = 48;
/** The length of an arrowhead, px. */
const HEAD = 4;
/** Distances that differ by less count as equal, px. */
const SAME = 0.5;

/**
 * The defects of numbers' places, a sentence each: beside their own edge, nearer to another edge, on a crossing, or over an arrowhead, a node,
 * a text or a title.
 */
export function chipFaults(scene: Scene, labels: readonly GradientLabel[]): string[] {
  const horizontal = scene.direction === "left" || scene.direction === "right";
  const lines = scene.edges.map(({ curve }) => {
    const points = (POINTS * (curve.length - 2)) / 6;
    return Array.from({ length: points + 1 }, (_, i) => pointAt(curve, i / points));
  });
  const nodes = scene.nodes.map((node) => extentOf(node, horizontal));
  const texts = [
    ...scene.edges.flatMap(({ label, merged }) => [label, ...(merged?.signs ?? [])]),
    ...(scene.links ?? []).map(({ label }) => label),
    ...(scene.signs ?? []),
  ].flatMap((place) => (place ? [boxIn(place)] : []));
  const titles = scene.frames.map(({ left, top, right }) => ({
    ...{ left, top, right, bottom: top + HEADER },
  }));
  const faults: string[] = [];
  const chips = labels.filter(({ cell }) => cell === undefined);
  chips.forEach(({ edge, text, local, ...place }, i) => {
    const box = boxIn(place);
    const own = edge === null ? -1 : scene.edgeOf ? scene.edgeOf[edge] : edge;
    const fault = (words: string) => faults.push(`${text} ${words}`);
    const covers = (boxes: readonly Box[], what: string) => {
      if (boxes.some((other) => overlap(box, other))) fault(`covers ${what}.`);
    };
    covers(nodes, "a node");
    covers(texts, "a text");
    covers(titles, "the title of a box");
    covers(chips.slice(0, i).map(boxIn), "another number");
    const away = lines.map((line) => Math.min(...line.map((at) => distance(box, at))));
    // A derivative is clear of its line, and so is a number where a word is on the line.
    if (edge !== null && !local && !scene.edges[own].label && away[own] > SAME)
      fault(`does not touch its edge, ${own}.`);
    for (const [e, { quiet }] of scene.edges.entries()) {
      const atStart = scene.isStatic || quiet === "constant";
      const [tipX, tipY] = lines[e][atStart ? 0 : lines[e].length - 1];
      if (quiet !== "cut" && distance(box, [tipX, tipY]) <= HEAD)
        fault(`lies on the head of edge ${e}.`);
      if (edge === null || e === own) continue;
      if (away[e] === 0) fault(`lies on edge ${e}, and belongs to ${own}.`);
      else if (away[e] < away[own] - SAME) fault(`is nearer to edge ${e} than to its own, ${own}.`);
    }
  });
  return faults;
}

/** From a box to a point, px; 0 within. */
function distance({ left, top, right, bottom }: Box, [x, y]: readonly [number, number]): number {
  return Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom));
}
