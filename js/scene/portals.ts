import { isHorizontal } from "../layout/direction";
import type { Hanging } from "../layout/types";
import { jump, straight } from "./curve";
import type { Placement } from "./dock";
import type { Plan } from "./plan";
import type { Scene } from "./scene";
import { isLeaf, type Sized } from "./sizes";
import type { Size } from "./views";

/** More long lines than this become portals. */
const MOST_LONG = 2;
/** A straight run of a line of this share of the room is a rail. */
const RAIL = 0.25;
/** Rails nearer to each other are side by side, px. */
const BESIDE = 30;
/** From a border to the middle of a portal, and between portals, px. */
const STUB = 18;
const BETWEEN = 20;
/** The room for a portal beside a box, px. */
const PORTAL_ROOM = STUB + 10;

/** The long lines of a picture that may become portals, with those that are; those alone if it has only a few more. */
export function longLines(
  placed: Placement,
  sized: Sized,
  length: number,
  portals: readonly number[],
): readonly number[] {
  const known = new Set(portals);
  const isLong = (e: number) => !known.has(e) && lengthOf(placed.route(e)) > length;
  const long = [...sized.plan.edges.keys()].filter(isLong);
  const most = portals.length > 0 ? 0 : MOST_LONG;
  return long.length > most ? liftable(sized, [...portals, ...long]) : portals;
}

/**
 * Those edges without which another way still leads from their producer to their user, so that the order of the data
 * stays. A leaf has no place in that order; its first user keeps its line.
 */
export function liftable({ graph, plan, times }: Sized, wanted: readonly number[]): number[] {
  const { nodes, edges } = plan;
  const lines: Set<number>[] = nodes.map(() => new Set());
  const uses = new Int32Array(nodes.length);
  edges.forEach(({ source, target }, e) => {
    lines[source].add(e);
    uses[target]++;
  });
  const isReached = (from: number, to: number) => {
    const seen = new Set([from]);
    for (const v of seen) for (const e of lines[v]) seen.add(edges[e].target);
    return seen.has(to);
  };
  // The last users first, so that the first one keeps its line.
  const depth = depths(plan);
  return [...wanted]
    .sort((a, b) => depth[edges[a].source] - depth[edges[b].source])
    .filter((e) => {
      const { source, target } = edges[e];
      if (times[target] > 1) return false;
      lines[source].delete(e);
      const isLifted = isLeaf(graph, nodes[target]) ? uses[target] > 1 : isReached(source, target);
      if (isLifted) uses[target]--;
      else lines[source].add(e);
      return isLifted;
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

/** Whether more than two lines run side by side for long. */
export function hasRails({ edges, direction }: Scene, room: Size): boolean {
  const horizontal = isHorizontal(direction);
  const [along, across] = horizontal ? [0, 1] : [1, 0];
  const least = RAIL * (horizontal ? room.width : room.height);
  const rails: { at: number; low: number; high: number }[] = [];
  for (const { curve } of edges) {
    for (let start = 0, i = 6; i < curve.length; i += 6) {
      const at = curve[start + across];
      const isEnd = i + 6 >= curve.length || Math.abs(curve[i + 6 + across] - at) > 1;
      if (Math.abs(curve[i + across] - at) > 1) start = i;
      else if (isEnd) {
        const ends = [curve[start + along], curve[i + along]];
        const [low, high] = [Math.min(...ends), Math.max(...ends)];
        // Lines of one producer share a rail.
        const isKnown = rails.some((one) => one.at === at && one.low < high && one.high > low);
        if (high - low >= least && !isKnown) rails.push({ at, low, high });
      }
    }
  }
  rails.sort((a, b) => a.at - b.at);
  return rails.some(({ low, high }, i) => {
    let count = 1;
    for (let j = i + 1; j < rails.length && rails[j].at - rails[j - 1].at <= BESIDE; j++)
      if (rails[j].low < high && rails[j].high > low) count++;
    return count > MOST_LONG;
  });
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
