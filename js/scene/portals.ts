import { isHorizontal } from "../layout/direction";
import type { Hanging } from "../layout/types";
import { jump, straight } from "./curve";
import type { Placement } from "./dock";
import type { Plan } from "./plan";
import type { Sized } from "./sizes";

/** More long lines than this become portals. */
const MOST_LONG = 2;
/** From a border to the middle of a portal, and between portals, px. */
const STUB = 18;
const BETWEEN = 20;
/** The room for a portal beside a box, px. */
const PORTAL_ROOM = STUB + 10;

/**
 * The long lines of a picture without those of `portals`, if there are more than two. The line to a producer's first
 * user stays, and so does a user's only line.
 */
export function longLines(
  placed: Placement,
  sized: Sized,
  length: number,
  portals: readonly number[],
): number[] {
  const { edges } = sized.plan;
  const known = new Set(portals);
  const long = [...edges.keys()].filter((e) => !known.has(e) && lengthOf(placed.route(e)) > length);
  const producers = new Set(long.map((e) => edges[e].target));
  const most = portals.length > 0 ? 0 : MOST_LONG;
  return producers.size > most ? liftable(sized, [...portals, ...long]) : [...portals];
}

/** Those edges without which each of their ends still has another line. */
export function liftable({ plan, times }: Sized, wanted: readonly number[]): number[] {
  const { edges } = plan;
  const uses = new Int32Array(times.length);
  const operands = new Int32Array(times.length);
  for (const { source, target } of edges) {
    uses[target]++;
    operands[source]++;
  }
  // The last users first, so that the first one keeps its line.
  const depth = depths(plan);
  return [...wanted]
    .sort((a, b) => depth[edges[a].source] - depth[edges[b].source])
    .filter((e) => {
      const { source, target } = edges[e];
      if (uses[target] < 2 || operands[source] < 2 || times[target] > 1) return false;
      uses[target]--;
      operands[source]--;
      return true;
    });
}

/** Per node, the length of the longest way from an output; 0 in a cycle of boxes. */
function depths({ nodes, edges }: Plan): Int32Array {
  const depth = new Int32Array(nodes.length);
  const waiting = new Int32Array(nodes.length);
  const out: number[][] = nodes.map(() => []);
  for (const { source, target } of edges) {
    waiting[target]++;
    out[source].push(target);
  }
  const ready = [...nodes.keys()].filter((v) => waiting[v] === 0);
  for (const v of ready)
    for (const to of out[v]) {
      depth[to] = Math.max(depth[to], depth[v] + 1);
      if (--waiting[to] === 0) ready.push(to);
    }
  return depth;
}

function lengthOf(route: readonly (readonly [number, number])[]): number {
  return route
    .slice(1)
    .reduce((sum, [x, y], i) => sum + Math.hypot(x - route[i][0], y - route[i][1]), 0);
}

/** Edges that are drawn as portals, and the nodes with them before their boxes instead of after. */
export interface Portals {
  edges: readonly number[];
  isBefore?: ArrayLike<number>;
}

/** Per node, the room that portals take before and after its box, and along the flow, px. */
export type PortalRoom = Hanging;

export function portalRoom({ plan }: Sized, portals: Portals): PortalRoom {
  const none = () => new Float64Array(plan.nodes.length);
  const room = { left: none(), right: none(), height: none() };
  endsOf(plan, portals.edges).forEach((ends, v) => {
    room[portals.isBefore?.[v] ? "left" : "right"][v] = PORTAL_ROOM;
    room.height[v] = ends.length * BETWEEN;
  });
  return room;
}

/** Per node, its portals: the producers that they lead to, itself included, from the inputs on. */
function endsOf(plan: Plan, portals: readonly number[]): Map<number, number[]> {
  const order = producersIn(plan, portals);
  const ends = new Map<number, Set<number>>();
  for (const e of portals) {
    const { source, target } = plan.edges[e];
    for (const v of [source, target]) ends.set(v, (ends.get(v) ?? new Set()).add(target));
  }
  return new Map(Array.from(ends, ([v, to]) => [v, order.filter((u) => to.has(u))]));
}

/** The producers of portals, from the inputs on. */
function producersIn(plan: Plan, portals: readonly number[]): number[] {
  const depth = depths(plan);
  const producers = [...new Set(portals.map((e) => plan.edges[e].target))];
  return producers.sort((a, b) => depth[b] - depth[a] || a - b);
}

/** Draw edges as portals, with one number per producer. */
export function withPortals(
  placed: Placement,
  { plan, shapes, direction }: Sized,
  portals: Portals,
): Placement {
  if (portals.edges.length === 0) return placed;
  const { x, y } = placed;
  const horizontal = isHorizontal(direction);
  const isReversed = direction === "left" || direction === "up";
  const ends = endsOf(plan, portals.edges);
  const order = producersIn(plan, portals.edges);
  const lines = new Map(placed.lines);
  const numbers = new Map<number, number>();
  for (const e of portals.edges) {
    const { source, target } = plan.edges[e];
    /** From the border to the portal of this producer. */
    const stub = (v: number): [number, number][] => {
      const own = ends.get(v) ?? [];
      const place = own.indexOf(target) - (own.length - 1) / 2;
      const at = y[v] + (isReversed ? -place : place) * BETWEEN;
      const side = portals.isBefore?.[v] ? -1 : 1;
      const border = x[v] + (side * (horizontal ? shapes[v].height : shapes[v].width)) / 2;
      return [
        [border, at],
        [border + side * STUB, at],
      ];
    };
    const [from, to] = [stub(source), stub(target)];
    lines.set(e, [...straight(from), ...jump(to[1]), ...straight(to.reverse()).slice(2)]);
    numbers.set(e, order.indexOf(target) + 1);
  }
  return { ...placed, lines, portals: numbers };
}
