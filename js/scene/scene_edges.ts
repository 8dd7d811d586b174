import { isotonic, makePoolScratch } from "../layout/coordinates";
import { isHorizontal, turn } from "../layout/direction";
import type { Layout } from "../layout/types";
import { listsBy } from "../maps";
import type { Measure } from "../text/measure";
import { boundsOf, moveEnds, smooth, smoothUp, straight } from "./curve";
import { labelSize } from "./labels";
import { edgePart } from "./members";
import type { NodeShape } from "./node_shape";
import type { Placement } from "./placement";
import type { Plan } from "./plan";
import type { PortalSign, SceneEdge } from "./scene";
import { kindOfMerged, tensorsIn } from "./shown_graph";
import type { Sized } from "./sizes";

/** The distance of ports from a box' corners. */
const CORNER = 8;

/** The curves of a placed plan, from each box to its row or port, with their graph edges. */
export function sceneEdges(
  { graph, plan, shapes, direction }: Pick<Sized, "graph" | "plan" | "shapes" | "direction">,
  placed: Placement,
  measure: Measure,
): SceneEdge[] {
  const { edges, edgeOf } = plan;
  const horizontal = isHorizontal(direction);
  const at = turn(direction, placed.height);
  const share = shapes.map((shape) =>
    horizontal ? shape.height / shape.outerHeight : shape.width / shape.outerWidth,
  );
  const routes = separateRoutes(placed, edges);
  const reach = (e: number, to: Point[]) => reachCards(to, shapes, edges[e], horizontal);
  for (const [e, route] of routes.entries()) if (!placed.apart[e]) reach(e, route);
  const leave = leaveAt(
    routes,
    edges,
    placed.apart,
    {
      centre: (v) => placed.x[v],
      share: (v) => share[v],
      room: (v) => (horizontal ? shapes[v].height : shapes[v].width) / 2 - CORNER,
      sign: (v) => signAcross(shapes[v], horizontal),
    },
    (edge) => labelSize(edge, horizontal, measure),
  );
  const rows = rowsOf(routes, edges, placed, shapes, horizontal);
  const onSome = new Set(graph.ranks?.edges.map(({ edge }) => edge));
  const curveOf = (e: number) => {
    const line = placed.lines?.get(e);
    if (line) {
      const at = (i: number): Point => [line[2 * i], line[2 * i + 1]];
      const points = Array.from({ length: line.length / 2 }, (_, i) => at(i));
      reach(e, points);
      return points.flat();
    }
    const isMirrored = placed.isMirrored?.[e] === 1;
    const route = isMirrored ? upsideDown(routes[e]) : routes[e];
    const curve = placed.backward[e] ? smoothUp(route) : along(e, route);
    return isMirrored ? curve.map((value, i) => (i % 2 ? -value : value)) : curve;
  };
  const along = (e: number, route: readonly Point[]) => {
    if (placed.apart[e]) return straight(route);
    const centre = placed.x[placed.edgeTarget[e]];
    const [end] = route[route.length - 1];
    const row = rows.get(e);
    const cell = shapes[edges[e].target].card?.rows[row ?? -1];
    const arrive =
      cell && horizontal ? centre + cell.y : centre + (end - centre) * share[edges[e].target];
    return smooth(moveEnds(route, leave[e], arrive));
  };
  return edges.map(({ source, edges: parts, folded, count }, index): SceneEdge => {
    const curve = new Float64Array(curveOf(index));
    for (let i = 0; i < curve.length; i += 2) [curve[i], curve[i + 1]] = at(curve[i], curve[i + 1]);
    return {
      index,
      source,
      target: placed.edgeTarget[index],
      curve,
      bounds: boundsOf(curve),
      label: null,
      backward: placed.backward[index] === 1,
      ...(parts.some((part) => onSome.has(part)) && { isOnSome: true }),
      ...(placed.portals?.has(index) && { portal: placed.portals.get(index) as PortalSign }),
      ...(rows.has(index) && { row: rows.get(index) as number }),
      // Absent if they are the same.
      ...(edgeOf && {
        merged: {
          edges: parts,
          folded,
          count,
          tensors: tensorsIn(graph, parts, folded),
          signs: [],
        },
      }),
      ...edgePart(kindOfMerged(graph, parts)),
    };
  });
}

/** From a card's middle to its sign, across the flow; null without a sign. */
function signAcross({ card }: NodeShape, horizontal: boolean): number | null {
  if (!card?.sign) return null;
  return horizontal ? card.sign.y : card.sign.x;
}

/** Move the ends of a line along the flow to its cards, each the way that the line goes there. */
function reachCards(
  points: Point[],
  shapes: readonly NodeShape[],
  { source, target }: { source: number; target: number },
  horizontal: boolean,
): void {
  const last = points.length - 1;
  const way = Math.sign(points[1][1] - points[0][1]) || 0;
  const arriving = Math.sign(points[last][1] - points[last - 1][1]) || 0;
  points[0][1] -= way * besideCard(shapes[source], horizontal, way > 0);
  points[last][1] += arriving * besideCard(shapes[target], horizontal, arriving < 0);
}

/** The free room of a card along the flow, for words beside it: a line ends at the card, or at its sign. */
function besideCard({ card, ...shape }: NodeShape, horizontal: boolean, atSign: boolean): number {
  if (!card) return 0;
  const { width = 0, height = 0, x = 0, y = 0 } = (atSign && card.sign) || {};
  return horizontal
    ? (shape.outerWidth - Math.max(shape.width, 2 * Math.abs(x) + width)) / 2
    : (shape.outerHeight - Math.max(shape.height, 2 * Math.abs(y) + height)) / 2;
}

/** Per edge into a leaf with rows, its row: in the order of arrival. */
function rowsOf(
  routes: readonly (readonly [number, number][])[],
  edges: Plan["edges"],
  placed: Placement,
  shapes: readonly NodeShape[],
  horizontal: boolean,
): Map<number, number> {
  const into = listsBy(edges.keys(), (e) => {
    const { target } = edges[e];
    return shapes[target].card?.rows.length && !placed.backward[e] ? target : null;
  });
  // Lines from the side are ordered from above, by their places before the last bend.
  const before = (e: number) => routes[e][Math.max(0, routes[e].length - 2)][0];
  const end = (e: number) => routes[e][routes[e].length - 1][0];
  const rows = new Map<number, number>();
  for (const arriving of into.values()) {
    if (horizontal) arriving.sort((a, b) => end(a) - end(b) || before(a) - before(b) || a - b);
    arriving.forEach((e, row) => {
      rows.set(e, row);
    });
  }
  return rows;
}

/** The properties of an edge that ports need. */
interface Ported {
  source: number;
  argument: string | null;
}

type Point = [number, number];

/**
 * Move ports as little as possible until neighbours keep the given gaps, in order, within `room` to either side; the
 * pinned one stays. If a side is too small, its gaps shrink evenly.
 */
export function spread(
  offsets: readonly number[],
  gaps: readonly number[],
  pinned: number | null,
  room: number,
): number[] {
  const fitted = fitGaps(gaps, pinned, pinned === null ? 0 : offsets[pinned], room);
  const before = [0];
  for (const gap of fitted) before.push(before[before.length - 1] + gap);
  const places = Float64Array.from(offsets);
  const weight = places.map((_, i) => (i === pinned ? PIN : 1));
  isotonic(
    places.length,
    places,
    weight,
    Float64Array.from(fitted),
    makePoolScratch(places.length),
  );
  const total = before[before.length - 1];
  return Array.from(
    places,
    (place, i) => Math.max(-room, Math.min(room - total, place - before[i])) + before[i],
  );
}

function upsideDown(route: readonly Point[]): Point[] {
  return route.map(([x, y]) => [x, -y]);
}

/** A weight that keeps the port in place. */
const PIN = 1e6;

/** Gaps that fit on either side of the pinned port, or altogether. */
function fitGaps(
  gaps: readonly number[],
  pinned: number | null,
  at: number,
  room: number,
): number[] {
  const shrunk = (part: readonly number[], space: number) => {
    const wanted = part.reduce((sum, gap) => sum + gap, 0);
    return wanted > space ? part.map((gap) => (gap * Math.max(0, space)) / wanted) : part;
  };
  if (pinned === null) return [...shrunk(gaps, 2 * room)];
  return [...shrunk(gaps.slice(0, pinned), room + at), ...shrunk(gaps.slice(pinned), room - at)];
}

/** Between two labels, px: lines that bend alike bring them closer. */
const BETWEEN = 10;

/**
 * Per edge, where it leaves its source's box, across the flow: in the layout's order, with room for the arguments
 * between them. Edges from another side (`apart`) are ignored.
 */
function leaveAt(
  routes: readonly Point[][],
  edges: readonly Ported[],
  apart: ArrayLike<number>,
  node: {
    centre(id: number): number;
    share(id: number): number;
    room(id: number): number;
    sign(id: number): number | null;
  },
  labelSize: (edge: Ported) => number,
): Float64Array {
  const at = new Float64Array(edges.length);
  const bySource = listsBy(edges.keys(), (i) => (apart[i] ? null : edges[i].source));
  for (const [id, out] of bySource) {
    const centre = node.centre(id);
    const offset = (i: number) => (routes[i][0][0] - centre) * node.share(id);
    out.sort((a, b) => offset(a) - offset(b) || routes[a][1][0] - routes[b][1][0] || a - b);
    const gaps = out.slice(1).map((i, k) => {
      const other = out[k];
      // Edges that leave as one line share one port.
      return offset(i) - offset(other) < 0.01
        ? 0
        : (labelSize(edges[i]) + labelSize(edges[other])) / 2 + BETWEEN;
    });
    // A straight line keeps its port.
    const straight = out.findIndex((i) => Math.abs(routes[i][1][0] - routes[i][0][0]) < 0.5);
    const places = spread(out.map(offset), gaps, straight < 0 ? null : straight, node.room(id));
    // All arrows leave from a sign.
    const sign = node.sign(id);
    out.forEach((i, k) => {
      at[i] = centre + (sign ?? places[k]);
    });
  }
  return at;
}

/** Distance between parallel edges, px. */
const PARALLEL = 6;

/** The routes of a layout; edges on the same way run side by side. */
function separateRoutes(
  placed: Pick<Layout, "route" | "edgeTarget">,
  edges: readonly Ported[],
): Point[][] {
  const routes = edges.map((_, i) => placed.route(i));
  const bundles = listsBy(edges.keys(), (i) => {
    const [first, second] = routes[i];
    return `${edges[i].source} ${placed.edgeTarget[i]} ${first} ${second}`;
  });
  for (const bundle of bundles.values()) {
    const gap = Math.min(PARALLEL, 12 / bundle.length);
    bundle.forEach((edge, k) => {
      const shift = (k - (bundle.length - 1) / 2) * gap;
      for (const point of routes[edge]) point[0] += shift;
    });
  }
  return routes;
}
