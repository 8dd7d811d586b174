import { type Direction, isHorizontal, turn } from "../layout/direction";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import { boundsOf, moveEnds, smooth, smoothUp, straight } from "./curve";
import type { Placement } from "./dock";
import { labelSize } from "./labels";
import { edgePart } from "./members";
import type { NodeShape } from "./node_shape";
import type { Plan } from "./plan";
import { leaveAt, separateRoutes } from "./ports";
import type { SceneEdge } from "./scene";
import { kindOfMerged, tensorsIn } from "./shown_graph";

/** The distance of ports from a box' corners. */
const CORNER = 8;

/** The curves of a placed plan, from each box to its row or port, with their graph edges. */
export function sceneEdges(
  graph: GraphModel,
  { edges, edgeOf }: Plan,
  placed: Placement,
  shapes: readonly NodeShape[],
  direction: Direction,
  measure: Measure,
): SceneEdge[] {
  const horizontal = isHorizontal(direction);
  const at = turn(direction, placed.height);
  const share = shapes.map((shape) =>
    horizontal ? shape.height / shape.outerHeight : shape.width / shape.outerWidth,
  );
  const routes = separateRoutes(placed, edges);
  const leave = leaveAt(
    routes,
    edges,
    placed.apart,
    {
      centre: (v) => placed.x[v],
      share: (v) => share[v],
      room: (v) => (horizontal ? shapes[v].height : shapes[v].width) / 2 - CORNER,
    },
    (edge) => labelSize(edge, horizontal, measure),
  );
  const rows = rowsOf(routes, edges, placed, shapes, horizontal);
  const onSome = new Set(graph.ranks?.edges.map(({ edge }) => edge));
  const curveOf = (e: number) => {
    const route = routes[e];
    if (placed.backward[e]) return smoothUp(route);
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

/** Per edge into a leaf with rows, its row: in the order of arrival. */
function rowsOf(
  routes: readonly (readonly [number, number][])[],
  edges: Plan["edges"],
  placed: Placement,
  shapes: readonly NodeShape[],
  horizontal: boolean,
): Map<number, number> {
  const into = new Map<number, number[]>();
  edges.forEach(({ target }, e) => {
    if (!shapes[target].card?.rows.length || placed.backward[e]) return;
    into.set(target, [...(into.get(target) ?? []), e]);
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
