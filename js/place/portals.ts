import { isHorizontal } from "../layout/direction";
import type { Hanging } from "../layout/types";
import { listsBy } from "../maps";
import { jump, straight } from "../scene/curve";
import { isModule } from "../scene/module_class";
import type { Placement } from "../scene/placement";
import type { Plan } from "../scene/plan";
import type { PortalSign, Scene } from "../scene/scene";
import { isLeaf, type Sized } from "../scene/sizes";
import type { Size } from "../scene/views";
import type { Measure } from "../text/measure";
import { oneLine } from "../text/shorten";

/** More long lines than this become portals; those that cannot become one do not count. */
const MOST_LONG = 2;
/** What more than this use is one sign at all of them. */
const MANY_USERS = 4;
/** A straight run of a line of this share of the room is a rail. */
const RAIL = 0.25;
/** Rails nearer to each other are side by side, px. */
const BESIDE = 30;
/** The size of a portal, from a border to it, between two, and beyond it, px. */
const PORTAL = 18;
const GAP = 9;
const BETWEEN = 2;
const MARGIN = 1;
/** The room beside a portal's name, and the longest name with it, px. */
const TEXT_PAD = 11;
const LONGEST_NAME = 150;
/** With more of them at one box, portals with names would be too wide. */
const MOST_NAMES = 2;

/**
 * The long lines of a picture that may become portals, with those that are: all of them if more than a few may, else
 * those of shared parameters. One producer with many users has portals alone, except at its first user. If a parameter
 * has a portal, its lines that turn back become portals, too.
 */
export function longLines(
  placed: Placement,
  sized: Sized,
  length: number,
  portals: readonly number[],
): readonly number[] {
  const { edges } = sized.plan;
  const known = new Set(portals);
  const lines = [...edges.keys()].filter((e) => !known.has(e));
  const long = lines.filter((e) => lengthOf(placed.route(e)) > length);
  const isShared = (e: number) => isOfParameters(sized, e);
  const most = portals.every(isShared) ? MOST_LONG : 0;
  const named = new Set(portals.filter(isShared).map((e) => edges[e].target));
  const more = [
    ...(liftable(sized, long).length > most ? long : long.filter(isShared)),
    ...lines.filter((e) => named.has(edges[e].target) && turnsBack(placed.route(e))),
  ];
  if (more.length === 0) return portals;
  const wanted = new Set([...portals, ...more]);
  const of = listsBy(edges.keys(), (e) => edges[e].target);
  for (const all of of.values())
    if (all.length > MANY_USERS && all.some((e) => wanted.has(e)))
      for (const e of all) wanted.add(e);
  return withAlike(sized, liftable(sized, [...wanted]));
}

/** With the other bypasses into operations of one kind, each with one, if most of them are portals. */
function withAlike(sized: Sized, portals: readonly number[]): readonly number[] {
  const { graph, plan } = sized;
  const { nodes, edges } = plan;
  const kindOf = (e: number) => {
    const { id, group } = nodes[edges[e].source];
    return group || graph.nodes[id].kind !== "op" ? null : graph.nodes[id].op;
  };
  let found = portals;
  for (const alike of listsBy(edges.keys(), kindOf).values()) {
    const known = alike.filter((e) => found.includes(e)).length;
    if (known === 0) continue;
    const all = liftable(sized, [...new Set([...found, ...alike])]);
    const bypasses = all.filter((e) => alike.includes(e)).map((e) => edges[e].source);
    if (2 * known > bypasses.length && new Set(bypasses).size === bypasses.length) found = all;
  }
  return found;
}

/** Whether a line leads to parameters alone: their own box, or the box of a module that shares them. */
function isOfParameters({ graph, plan: { edges, nodeOf } }: Sized, e: number): boolean {
  const { target, edges: parts } = edges[e];
  return parts
    .map((part) => graph.edges[part].target)
    .filter((id) => (nodeOf?.[id] ?? id) === target)
    .every((id) => graph.nodes[id].kind === "leaf");
}

/**
 * Those edges without which another way still leads from their producer to their user, so that the order of the data
 * stays. Parameters have no place in that order, so all lines of shared ones may go. What many use has none
 * either, but its first user keeps its line.
 */
export function liftable(sized: Sized, wanted: readonly number[]): number[] {
  const { plan, times } = sized;
  const { nodes, edges } = plan;
  const lines: Set<number>[] = nodes.map(() => new Set());
  const uses = new Int32Array(nodes.length);
  edges.forEach(({ source, target }, e) => {
    lines[source].add(e);
    uses[target]++;
  });
  const users = Int32Array.from(uses);
  const isShared = (target: number) => users[target] > 1;
  const isReached = (from: number, to: number) => {
    const seen = new Set([from]);
    for (const v of seen) for (const e of lines[v]) seen.add(edges[e].target);
    return seen.has(to);
  };
  const isFree = new Set(
    wanted.filter((e) => uses[edges[e].target] > MANY_USERS || isOfParameters(sized, e)),
  );
  // The last users first, so that the first one keeps its line.
  const depth = depths(plan);
  return [...wanted]
    .sort((a, b) => depth[edges[a].source] - depth[edges[b].source])
    .sort((a, b) => Number(isFree.has(b)) - Number(isFree.has(a)))
    .filter((e) => {
      const { source, target } = edges[e];
      if (times[target] > 1) return false;
      lines[source].delete(e);
      const isLifted = isFree.has(e)
        ? uses[target] > 1 || (isShared(target) && isOfParameters(sized, e))
        : isReached(source, target);
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

/** Whether a route runs against the flow for a while, as to another row. */
function turnsBack(route: readonly (readonly [number, number])[]): boolean {
  return route.some(([, y], i) => i > 0 && y < route[i - 1][1] - 1);
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

export function portalRoom(sized: Sized, portals: Portals, measure: Measure): PortalRoom {
  const { plan, direction } = sized;
  const none = () => new Float64Array(plan.nodes.length);
  const room = { left: none(), right: none(), height: none() };
  const horizontal = isHorizontal(direction);
  const signs = signsOf(sized, portals.edges, measure);
  endsOf(plan, portals.edges).forEach((ends, v) => {
    for (const to of ends) {
      const { width } = signs.get(to) as PortalSign;
      const side = room[portals.isBefore?.[v] ? "left" : "right"];
      side[v] = Math.max(side[v], GAP + (horizontal ? PORTAL : width) + MARGIN);
      room.height[v] += (horizontal ? width : PORTAL) + BETWEEN;
    }
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

/** Per producer, the sign at its portals: the shortest end of its name that nothing else has, if short; else a number. */
function signsOf(
  { graph, plan, shapes }: Sized,
  portals: readonly number[],
  measure: Measure,
): Map<number, PortalSign> {
  const { nodes, frames } = plan;
  const titles = shapes.map(
    ({ texts }) => texts.find(({ style }) => style === "title")?.text ?? "",
  );
  const dotted = (path: string) => `.${oneLine(path).replaceAll("/", ".")}`;
  const names = [...nodes.map(nameOf), ...frames.map(({ path }) => path)].map(dotted);
  const crowded = [...endsOf(plan, portals).values()].filter((to) => to.length > MOST_NAMES).flat();
  const widthOf = (name: string) => Math.max(PORTAL, measure(name, "name") + TEXT_PAD);
  let number = 0;
  const signOf = (v: number): PortalSign => {
    // A layer's number would be taken for a portal's.
    const name = endsAt(v).find((end) => /\D/.test(end) && isOwn(v, end));
    return name && widthOf(name) <= LONGEST_NAME && !crowded.includes(v)
      ? { text: name, width: widthOf(name) }
      : { text: `${++number}`, width: PORTAL };
  };
  return new Map(producersIn(plan, portals).map((v) => [v, signOf(v)]));

  function nameOf({ id, group }: Plan["nodes"][number]): string {
    return group?.paths[0] ?? graph.nodes[id].name ?? "";
  }

  /** The ends of a box's or parameter's name, the shortest first; "weight" alone could be any parameter. */
  function endsAt(v: number): string[] {
    const parts = names[v].slice(1).split(".");
    const longer = parts.slice(1).map((_, i) => parts.slice(-2 - i).join("."));
    if (isLeaf(graph, nodes[v])) return longer.length > 0 ? longer : [parts[0] || titles[v]];
    // An operation's title is not its name.
    if (!nodes[v].group) return [];
    return [titles[v], ...(isModule(nameOf(nodes[v])) ? longer : [])];
  }

  function isOwn(v: number, end: string): boolean {
    const isOther = (k: number) => names[k].endsWith(`.${end}`) || titles[k] === end;
    return [...names.keys()].every((k) => k === v || !isOther(k));
  }
}

/** Draw edges as portals, with one sign per producer. */
export function withPortals(
  placed: Placement,
  sized: Sized,
  portals: Portals,
  measure: Measure,
): Placement {
  if (portals.edges.length === 0) return placed;
  const { plan, shapes, direction } = sized;
  const { x, y } = placed;
  const horizontal = isHorizontal(direction);
  const isReversed = direction === "left" || direction === "up";
  const ends = endsOf(plan, portals.edges);
  const signs = signsOf(sized, portals.edges, measure);
  const sizeOf = (v: number, isAlong: boolean) =>
    isAlong === horizontal ? (signs.get(v)?.width ?? 0) : PORTAL;
  /** From a node's border to the portal of a producer. */
  const stub = (v: number, target: number): [number, number][] => {
    const own = ends.get(v) ?? [];
    const lengths = own.map((to) => sizeOf(to, true) + BETWEEN);
    const sum = (sizes: number[]) => sizes.reduce((all, size) => all + size, 0);
    const k = own.indexOf(target);
    const place = sum(lengths.slice(0, k)) + (lengths[k] - sum(lengths)) / 2;
    const at = y[v] + (isReversed ? -place : place);
    const side = portals.isBefore?.[v] ? -1 : 1;
    const border = x[v] + (side * (horizontal ? shapes[v].height : shapes[v].width)) / 2;
    return [
      [border, at],
      [border + side * (GAP + sizeOf(target, false) / 2), at],
    ];
  };
  const lines = new Map(placed.lines);
  const drawn = new Map<number, PortalSign>();
  const known = new Set<number>();
  for (const e of portals.edges) {
    const { source, target } = plan.edges[e];
    const [from, to] = [stub(source, target), stub(target, target)];
    lines.set(e, [...straight(from), ...jump(to[1]), ...straight(to.reverse()).slice(2)]);
    const sign = signs.get(target) as PortalSign;
    drawn.set(e, known.has(target) ? { ...sign, isKnown: true } : sign);
    known.add(target);
  }
  return { ...placed, lines, portals: drawn };
}
