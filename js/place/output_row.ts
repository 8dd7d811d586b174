import { isHorizontal } from "../layout/direction";
import { cornered } from "../scene/curve";
import type { Placement } from "../scene/placement";
import { flagsIn, type Sized } from "../scene/sizes";
import { across, along } from "./extents";

/** From the end of a moved output to its line, px. */
const CORNER = 16;

/** The only output, if it is in a row without other nodes; null otherwise. */
export function outputAlone({ x, owner }: Placement, sized: Sized): number | null {
  const { graph, plan, shapes, direction } = sized;
  const horizontal = isHorizontal(direction);
  const half = (v: number) => across(shapes[owner[v]], horizontal) / 2;
  const flags = flagsIn(graph, plan);
  const [output, ...others] = [...x.keys()].filter((v) => flags[owner[v]].length > 0);
  if (output === undefined || others.length > 0) return null;
  const isBeside = (v: number) => Math.abs(x[v] - x[output]) < half(v) + half(output);
  return [...x.keys()].some((v) => v !== output && isBeside(v)) ? null : output;
}

/**
 * Move an output that is alone in the last row to the end of the row before it, so that its line goes straight there
 * instead of around it.
 */
export function withOutputUnder(placed: Placement, sized: Sized): Placement {
  const output = outputAlone(placed, sized);
  const { edges } = sized.plan;
  const [own, ...others] = [...edges.keys()].filter(
    (e) => edges[e].source === output || edges[e].target === output,
  );
  if (output === null || own === undefined || others.length > 0) return placed;
  const route = placed.route(own);
  const turn = Math.min(...route.map(([, y]) => y));
  const bend = route.findIndex(([, y]) => y === turn);
  if (placed.apart[own] || bend < 1 || bend > route.length - 3) return placed;
  const horizontal = isHorizontal(sized.direction);
  const shape = sized.shapes[output];
  const end = turn - CORNER;
  // The picture begins at 0.
  const shift = Math.max(0, -end);
  const moved = (all: Float64Array) => all.map((at) => at + shift);
  const y = moved(placed.y);
  y[output] = end + shift + along(shape, horizontal) / 2;
  const side = Math.sign(route[bend][0] - placed.x[output]);
  const start = placed.x[output] + (side * across(shape, horizontal)) / 2;
  const line = [[start, turn] as const, ...route.slice(bend + 1)];
  const apart = placed.apart.slice();
  apart[own] = 1;
  return {
    ...placed,
    y,
    apart,
    height: placed.height + shift,
    boxes: { ...placed.boxes, top: moved(placed.boxes.top) },
    route: (e) => placed.route(e).map(([px, py]) => [px, py + shift]),
    lines: new Map(placed.lines).set(own, cornered(line.map(([px, py]) => [px, py + shift]))),
  };
}
