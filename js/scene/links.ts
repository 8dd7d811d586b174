import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import { boundsOf, pointAt } from "./curve";
import { type Box, boxIn, overlap, type Place } from "./grid";
import { extentOf, Obstacles, TEXT_HEIGHT, TEXT_PAD } from "./obstacles";
import type { Scene, SceneLink } from "./scene";

const WORDS = "derivative of";
/** The most links that are always drawn; others appear with the selected node. */
const MOST = 12;
/** How far a link bends aside, as a share of its length, straightest first. */
const BENDS = [0, 0.15, -0.15, 0.3, -0.3, 0.5, -0.5, 0.8, -0.8];
const SAMPLES = 40;
/** Between a node and a link's end, px. */
const AWAY = 3;
/** How far it may reach into the picture's margin, px. */
const OUTSIDE = 12;
/** Costs of a path: per point under a node, outside or on a line, and per px. */
const COST = { covered: 200, outside: 400, crossed: 12, long: 0.1 };
const PLACES = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82];
/** On the link, or above or below a short one, px. */
const SHIFTS = [0, -TEXT_HEIGHT, TEXT_HEIGHT, -2 * TEXT_HEIGHT, 2 * TEXT_HEIGHT];

/** Link drawn derivatives to their functions' nodes. Nothing makes way for links, so call this last. */
export function placeLinks(scene: Scene, graph: GraphModel, measure: Measure): void {
  const ends = new Map<string, [source: number, target: number]>();
  for (const { node, of } of graph.derivatives) {
    const [source] = scene.drawn[node] ?? [];
    const [target] = scene.drawn[of] ?? [];
    if (source === undefined || target === undefined || source === target) continue;
    ends.set(`${source} ${target}`, [source, target]);
  }
  delete scene.links;
  if (ends.size === 0) return;
  const isShy = ends.size > MOST;
  const obstacles = new Obstacles(scene);
  scene.links = Array.from(ends.values(), ([source, target]): SceneLink => {
    const bends = isShy ? BENDS.slice(0, 1) : BENDS;
    const ways = bends.map((bend) => wayOf(scene, source, target, bend, obstacles));
    const { curve } = ways.reduce((best, way) => (way.cost < best.cost ? way : best));
    const label = isShy ? null : labelOn(curve, scene, measure, obstacles);
    if (label) obstacles.add(label);
    return { source, target, curve, label, ...(isShy && { isShy }) };
  });
}

/** The links to draw: if many, only those at a node, and at most as many as can be distinguished. */
export function linksAt(
  { links = [], drawn }: Scene,
  selected: number | null,
): readonly SceneLink[] {
  if (!links[0]?.isShy) return links;
  const at = new Set(selected === null ? [] : drawn[selected]);
  return links.filter(({ source, target }) => at.has(source) || at.has(target)).slice(0, 3 * MOST);
}

function wayOf(scene: Scene, source: number, target: number, bend: number, obstacles: Obstacles) {
  const horizontal = scene.direction === "left" || scene.direction === "right";
  const [a, b] = [scene.nodes[source], scene.nodes[target]];
  const [boxA, boxB] = [a, b].map((node) => grown(extentOf(node, horizontal), AWAY));
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const control = (share: number) => [
    a.x + share * dx - (4 / 3) * bend * dy,
    a.y + share * dy + (4 / 3) * bend * dx,
  ];
  const whole = [a.x, a.y, ...control(0.25), ...control(0.75), b.x, b.y];
  const inside = (t: number, box: Box) => {
    const [x, y] = pointAt(whole, t);
    return x > box.left && x < box.right && y > box.top && y < box.bottom;
  };
  /** Where the path leaves its first box, within a fraction of a px. */
  const out = (start: number, way: 1 | -1, box: Box) => {
    let t = start;
    for (let step = way / 64; Math.abs(step) > 1e-5; step /= 2)
      while (Math.abs(t + step - start) <= 1 && inside(t + step, box)) t += step;
    return t;
  };
  const from = out(0, 1, boxA);
  const curve = part(whole, from, Math.max(from, out(1, -1, boxB)));
  let cost = 0;
  for (let i = 1; i < SAMPLES; i++) {
    const [x, y] = pointAt(curve, i / SAMPLES);
    const place = { x, y, width: 4, height: 4 };
    if (!obstacles.isFree(place, null, true)) cost += COST.covered;
    else if (!obstacles.isFree(place, null)) cost += COST.crossed;
    const isOut = x < -OUTSIDE || y < -OUTSIDE;
    if (isOut || x > scene.width + OUTSIDE || y > scene.height + OUTSIDE) cost += COST.outside;
  }
  const [left, top, right, bottom] = boundsOf(new Float64Array(curve));
  cost += COST.long * (right - left + bottom - top);
  return { curve, cost };
}

/** A place for the words: on the link, clear of all else, or if necessary on a line. */
function labelOn(
  curve: readonly number[],
  { width, height }: Scene,
  measure: Measure,
  obstacles: Obstacles,
) {
  const size = { width: measure(WORDS, "edge") + 2 * TEXT_PAD, height: TEXT_HEIGHT };
  const picture = {
    left: -OUTSIDE,
    top: -OUTSIDE,
    right: width + OUTSIDE,
    bottom: height + OUTSIDE,
  };
  const places = SHIFTS.flatMap((shift) =>
    PLACES.map((share): Place => {
      const [x, y] = pointAt(curve, share);
      return { x, y: y + shift, ...size };
    }),
  ).filter((place) => overlap(boxIn(place), picture));
  const isFree = (crossing: boolean) =>
    places.find((place) => obstacles.isFree(place, null, crossing));
  const place = isFree(false) ?? isFree(true);
  return place ? { text: WORDS, ...place } : null;
}

function grown({ left, top, right, bottom }: Box, by: number): Box {
  return { left: left - by, top: top - by, right: right + by, bottom: bottom + by };
}

/** The part of a cubic piece between two parameters. */
function part(curve: readonly number[], from: number, to: number): number[] {
  const slope = (t: number, k: number) =>
    3 * (1 - t) ** 2 * (curve[2 + k] - curve[k]) +
    6 * (1 - t) * t * (curve[4 + k] - curve[2 + k]) +
    3 * t ** 2 * (curve[6 + k] - curve[4 + k]);
  const [ax, ay] = pointAt(curve, from);
  const [bx, by] = pointAt(curve, to);
  const third = (to - from) / 3;
  return [
    ...[ax, ay],
    ...[ax + third * slope(from, 0), ay + third * slope(from, 1)],
    ...[bx - third * slope(to, 0), by - third * slope(to, 1)],
    ...[bx, by],
  ];
}
