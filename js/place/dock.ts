import type { Hanging, Layout } from "../layout/types";
import type { NodeShape } from "../scene/node_shape";
import type { Placement } from "../scene/placement";
import type { Plan } from "../scene/plan";
import { isWork } from "../scene/shown_graph";
import type { GraphModel } from "../wire";
import { across, along } from "./extents";

/** A leaf or constant beside the one operation that uses it, outside the line of the data. */
export interface Dock {
  /** Places in the plan: of the leaf, of the operation, and of the edge between them. */
  leaf: number;
  user: number;
  edge: number;
  /** 1 after the operation (below it, where the flow is horizontal), -1 before it. */
  side: 1 | -1;
}

/** Sides to dock at, best first. */
const SIDES = [1, -1] as const;

/** The leaves and constants to dock beside their only operation, if its line continues with another operand. */
export function docksOf(
  graph: GraphModel,
  { nodes, edges }: Plan,
  shapes: readonly NodeShape[],
  times: ArrayLike<number>,
): Dock[] {
  const uses = new Int32Array(nodes.length);
  const operands: number[][] = nodes.map(() => []);
  edges.forEach(({ source, target }, e) => {
    uses[target]++;
    operands[source].push(e);
  });
  const roots = new Set(graph.roots.map(({ node }) => node));
  const kindOf = (v: number) => graph.nodes[nodes[v].id].kind;
  const works = (v: number) => isWork(graph.nodes[nodes[v].id]);
  const canDock = (v: number, user: number) =>
    uses[v] === 1 &&
    times[v] === 1 &&
    operands[v].length === 0 &&
    !works(v) &&
    !roots.has(nodes[v].id) &&
    nodes[v].frame === nodes[user].frame;
  return nodes.flatMap((_, user) => {
    if (!works(user)) return [];
    const own = operands[user];
    const docking = own.filter((e) => canDock(edges[e].target, user));
    const leads = (e: number) => works(edges[e].target) || uses[edges[e].target] > 1;
    if (!own.some((e) => !docking.includes(e) && leads(e))) {
      const first = docking.findIndex((e) => kindOf(edges[e].target) === "leaf");
      docking.splice(Math.max(0, first), 1);
    }
    const { stubs } = shapes[user];
    const sides = stubs.length > 0 ? SIDES.slice(1) : SIDES;
    // If not all fit, none docks.
    if (docking.length > sides.length) return [];
    return docking.map((edge, i) => ({ leaf: edges[edge].target, user, edge, side: sides[i] }));
  });
}

/** The room for docked nodes beside the boxes, px: `gap` is between the two. */
export function hangingOf(
  docks: readonly Dock[],
  shapes: readonly NodeShape[],
  horizontal: boolean,
  gap: number,
): Hanging {
  const none = () => new Float64Array(shapes.length);
  const hanging = { left: none(), right: none(), height: none() };
  for (const { leaf, user, side } of docks) {
    const { outerWidth, outerHeight } = shapes[user];
    const own = (horizontal ? outerHeight : outerWidth) / 2;
    const reach = across(shapes[user], horizontal) / 2 + gap + across(shapes[leaf], horizontal);
    hanging[side > 0 ? "right" : "left"][user] = Math.max(0, reach - own);
    const along = horizontal ? shapes[leaf].outerWidth : shapes[leaf].outerHeight;
    hanging.height[user] = Math.max(hanging.height[user], along);
  }
  return hanging;
}

/** The layout's nodes without the docked ones, and its edges without the `lifted` ones: their indices in the plan, and each node's index among them. */
export function withoutDocked(
  { nodes, edges }: Plan,
  docks: readonly Dock[],
  lifted: ReadonlySet<number> = new Set(),
) {
  const left = new Set(docks.map(({ leaf }) => leaf));
  const kept = [...nodes.keys()].filter((v) => !left.has(v));
  const lines = new Set([...docks.map(({ edge }) => edge), ...lifted]);
  const at = new Int32Array(nodes.length).fill(-1);
  kept.forEach((v, i) => {
    at[v] = i;
  });
  return { kept, at, lines: [...edges.keys()].filter((e) => !lines.has(e)) };
}

/** Docked nodes and their places. */
interface Docked {
  docks: readonly Dock[];
  shapes: readonly NodeShape[];
  horizontal: boolean;
  /** From a docked node to its user, px. */
  gap: number;
}

/** From the middle of a node to the end of a docked node's line, across the flow and along it: at the sign of a card. */
function portOf({ card, ...shape }: NodeShape, side: 1 | -1, horizontal: boolean) {
  if (!card?.sign) return { start: (side * across(shape, horizontal)) / 2, along: 0 };
  const { x, y, width, height } = card.sign;
  return horizontal
    ? { start: y + (side * height) / 2, along: Math.abs(x) }
    : { start: x + (side * width) / 2, along: Math.abs(y) };
}

/** The whole picture, from the layout and the docked nodes. */
export function withDocked(
  placed: Layout,
  { nodes, edges }: Plan,
  { kept, lines }: ReturnType<typeof withoutDocked>,
  { docks, shapes, horizontal, gap }: Docked,
): Placement {
  const n = nodes.length;
  const copies = placed.owner.length - kept.length;
  /** Per drawn node of the layout, its index in the whole picture. */
  const drawn = Array.from(placed.owner, (_, i) =>
    i < kept.length ? kept[i] : n + i - kept.length,
  );
  const x = new Float64Array(n + copies);
  const y = new Float64Array(n + copies);
  const owner = Int32Array.from(x.keys());
  const rank = new Int32Array(n + copies);
  const of = new Int32Array(n + copies).fill(-1);
  drawn.forEach((v, i) => {
    [x[v], y[v], rank[v]] = [placed.x[i], placed.y[i], placed.rank[i]];
    owner[v] = kept[placed.owner[i]];
    of[v] = placed.boxes.of[i];
  });
  const edgeTarget = new Int32Array(edges.length);
  const backward = new Uint8Array(edges.length);
  const apart = new Uint8Array(edges.length);
  const nowhere: [number, number][] = [
    [0, 0],
    [0, 0],
  ];
  const routes = edges.map(() => nowhere);
  edges.forEach(({ target }, e) => {
    edgeTarget[e] = target;
    apart[e] = 1;
  });
  lines.forEach((e, i) => {
    edgeTarget[e] = drawn[placed.edgeTarget[i]];
    backward[e] = placed.backward[i];
    apart[e] = placed.backward[i];
    routes[e] = placed.route(i);
  });
  for (const { leaf, user, edge, side } of docks) {
    const border = x[user] + (side * across(shapes[user], horizontal)) / 2;
    const port = portOf(shapes[user], side, horizontal);
    const [from, at] = [x[user] + port.start, y[user] + port.along];
    x[leaf] = border + side * (gap + across(shapes[leaf], horizontal) / 2);
    // Under the sign, as far as there is room beside it.
    const free = (along(shapes[user], horizontal) - along(shapes[leaf], horizontal)) / 2;
    y[leaf] = Math.max(y[user], Math.min(at, y[user] + free));
    rank[leaf] = rank[user] + 1;
    of[leaf] = of[user];
    edgeTarget[edge] = leaf;
    apart[edge] = 1;
    routes[edge] = [
      [from, at],
      [border + side * gap, at],
    ];
  }
  return {
    ...{ x, y, owner, rank, edgeTarget, backward, apart },
    ...{ width: placed.width, height: placed.height, boxes: { ...placed.boxes, of } },
    route: (edge) => routes[edge].map(([px, py]) => [px, py]),
  };
}
