import { listsBy } from "../maps";
import { cornered, SHAFT, straight } from "../scene/curve";
import type { NodeShape } from "../scene/node_shape";
import type { Placement } from "../scene/placement";
import type { Plan } from "../scene/plan";
import { across, along } from "./extents";
import type { PortalRoom } from "./portals";

/** A picture whose second half goes below its first, mirrored, as of a U-Net: its bypasses are then short. */
export interface Bend {
  /** Per node of the plan, 1 in the half with the outputs. */
  isLast: Uint8Array;
  /** Edges across, from the turn outwards. */
  skips: readonly number[];
  /** Edges across that cannot be drawn so. */
  others: readonly number[];
}

/** A producer with more users across is not a bypass. */
const MOST_USERS = 2;
/** The most producers with that many users. */
const MOST_BROADCASTS = 2;
/** Between the halves, and around the turn, px. */
const CHANNEL = 34;
const TURN = 18;
/** Between lines that turn, and between ports on one border, px. */
const LANE = 8;
const PORT = 14;
/** The length of a closed box and the gap to the next one, about, px. */
const CLOSED = 100;
const GAP = 18;
/** Between a bypass and a node beside it, px. */
const MARGIN = 4;

type Point = [number, number];

/** An interval along the flow with everything that overlaps it, px. */
interface Column {
  low: number;
  high: number;
}

/** The sizes of drawn nodes along and across the flow, px. */
export interface Extents {
  along(node: number): number;
  /** From its middle to its ends. */
  before(node: number): number;
  after(node: number): number;
  /** Half of its border. */
  border(node: number): number;
}

export function extentsOf(
  placed: Pick<Placement, "owner">,
  shapes: readonly NodeShape[],
  horizontal: boolean,
  portals?: PortalRoom,
): Extents {
  const shape = (node: number) => shapes[placed.owner[node]];
  const outer = (node: number) =>
    (horizontal ? shape(node).outerHeight : shape(node).outerWidth) / 2;
  return {
    along: (node) => along(shape(node), horizontal),
    before: (node) => outer(node) + (portals?.left[placed.owner[node]] ?? 0),
    after: (node) => outer(node) + (portals?.right[placed.owner[node]] ?? 0),
    border: (node) => across(shape(node), horizontal) / 2,
  };
}

/** Whether two lines bypass parts of a picture, one around the other: only then can it be bent. */
export function hasNestedBypasses({ nodes, edges }: Plan): boolean {
  const rank = longestPaths(nodes.length, edges);
  const spans = edges
    .map(({ source, target }) => [rank[source], rank[target]])
    .filter(([high, low]) => high - low > 1)
    .sort(([a], [b]) => b - a);
  return spans.some(([high, low], i) =>
    spans.slice(0, i).some(([outer, end]) => outer > high && end < low),
  );
}

/** Per node, the length of its longest path of lines; nodes in a cycle have 0. */
function longestPaths(count: number, edges: Plan["edges"]): Int32Array {
  const rank = new Int32Array(count);
  const open = new Int32Array(count);
  const users = listsBy([...edges], ({ target }) => target);
  for (const { source } of edges) open[source]++;
  const ready = [...rank.keys()].filter((v) => open[v] === 0);
  for (const v of ready)
    for (const { source } of users.get(v) ?? []) {
      rank[source] = Math.max(rank[source], rank[v] + 1);
      if (--open[source] === 0) ready.push(source);
    }
  return rank;
}

/** Find the best turn of a picture in one row; null if it has no nested bypasses. */
export function bendOf(placed: Placement, { edges, frames }: Plan, sizes: Extents): Bend | null {
  const { columns, columnOf } = columnsOf(placed, frames, sizes);
  const { y, edgeTarget } = placed;
  let best: (Bend & { score: number }) | null = null;
  const total = columns[columns.length - 1].high - columns[0].low;
  for (let cut = 1; cut < columns.length; cut++) {
    const across = [...edges.keys()].filter(
      (e) => columnOf[edges[e].source] < cut && columnOf[edgeTarget[e]] >= cut,
    );
    const users = new Map<number, Set<number>>();
    for (const e of across) {
      const known = users.get(edgeTarget[e]) ?? new Set();
      users.set(edgeTarget[e], known.add(edges[e].source));
    }
    const isSpread = (e: number) => (users.get(edgeTarget[e])?.size ?? 0) > MOST_USERS;
    const isTurn = (e: number) =>
      columnOf[edges[e].source] === cut - 1 && columnOf[edgeTarget[e]] === cut;
    const candidates = across.filter((e) => !isSpread(e) && !isTurn(e));
    candidates.sort(
      (a, b) => y[edgeTarget[a]] - y[edgeTarget[b]] || y[edges[b].source] - y[edges[a].source],
    );
    const skips = longestNested(candidates, (e) => -y[edges[e].source]);
    const isSkip = new Set(skips);
    const others = across.filter((e) => !isSkip.has(e) && !isTurn(e));
    const lost = candidates.length - skips.length;
    const producers = new Set(skips.map((e) => edgeTarget[e]));
    const consumers = new Set(skips.map((e) => edges[e].source));
    const spread = new Set(across.filter(isSpread).map((e) => edgeTarget[e]));
    if (producers.size < 2 || consumers.size < 2 || 2 * lost > skips.length) continue;
    if (spread.size > MOST_BROADCASTS) continue;
    // As far from one end of the innermost bypass as from the other: both halves then begin at the turn.
    const middle = (columns[cut - 1].high + columns[cut].low) / 2;
    const ends = y[edgeTarget[skips[0]]] + y[edges[skips[0]].source];
    const score = skips.length - lost - Math.abs(ends - 2 * middle) / total;
    if (best && best.score >= score) continue;
    best = { score, skips, others, isLast: Uint8Array.from(columnOf, (c) => (c < cut ? 1 : 0)) };
  }
  return best;
}

/** How to measure a bent picture before it is laid out. Lengths are px. */
interface Measured {
  /** The most length of an open box. */
  box?: number;
  gap?: number;
  /** Nodes that go beside others. */
  beside?: ReadonlySet<number>;
}

/** The length of the longer half of a picture that is in one row, about: by default with every outermost box closed. */
export function bendLength(
  placed: Placement,
  { frames }: Plan,
  { isLast }: Bend,
  sizes: Extents,
  { box = CLOSED, gap = GAP, beside }: Measured = {},
): number {
  const { columns, columnOf } = columnsOf(placed, frames, sizes);
  const lengths = [0, 0];
  columns.forEach(({ low, high }, c) => {
    const inside = [...columnOf.keys()].filter(
      (v) => columnOf[v] === c && !beside?.has(placed.owner[v]),
    );
    if (inside.length === 0) return;
    const isOpen = inside.some((v) => placed.boxes.of[v] >= 0);
    const half = isLast[placed.owner[inside[0]]];
    lengths[half] += (isOpen ? Math.min(box, high - low) : high - low) + gap;
  });
  return Math.max(...lengths) + TURN;
}

/** The longest part of a list in which the numbers do not fall. */
function longestNested(edges: readonly number[], numberOf: (edge: number) => number): number[] {
  const length: number[] = [];
  const before: number[] = [];
  let last = -1;
  edges.forEach((edge, i) => {
    length[i] = 1;
    before[i] = -1;
    for (let k = 0; k < i; k++) {
      if (numberOf(edges[k]) > numberOf(edge) || length[k] < length[i]) continue;
      length[i] = length[k] + 1;
      before[i] = k;
    }
    if (last < 0 || length[i] > length[last]) last = i;
  });
  const found: number[] = [];
  for (let i = last; i >= 0; i = before[i]) found.unshift(edges[i]);
  return found;
}

/** The columns of a picture along the flow, and each drawn node's column. */
function columnsOf(
  { x, y, boxes }: Placement,
  frames: Plan["frames"],
  sizes: Extents,
): { columns: Column[]; columnOf: Int32Array } {
  const outermost = frames.map(({ parent }) => parent);
  frames.forEach(({ parent }, f) => {
    outermost[f] = parent < 0 ? f : outermost[parent];
  });
  const extent = (v: number): Column => {
    const box = outermost[boxes.of[v]] ?? -1;
    if (box >= 0) return { low: boxes.top[box], high: boxes.top[box] + boxes.height[box] };
    const half = sizes.along(v) / 2;
    return { low: y[v] - half, high: y[v] + half };
  };
  const extents = Array.from(x, (_, v) => extent(v));
  const columns: Column[] = [];
  for (const { low, high } of [...extents].sort((a, b) => a.low - b.low)) {
    const last = columns[columns.length - 1];
    if (last && low < last.high) last.high = Math.max(last.high, high);
    else columns.push({ low, high });
  }
  const columnOf = Int32Array.from(extents, ({ low }) =>
    columns.findIndex((column) => low < column.high),
  );
  return { columns, columnOf };
}

/** Bend a picture in one row whose bypasses were left out; null if its halves overlap. */
export function bent(placed: Placement, plan: Plan, bend: Bend, sizes: Extents): Placement | null {
  const { edges, frames } = plan;
  const { owner, edgeTarget, boxes } = placed;
  const halfOf = (v: number): 0 | 1 => (bend.isLast[owner[v]] ? 1 : 0);
  const lifted = new Set([...bend.skips, ...bend.others]);
  const turns = [...edges.keys()].filter(
    (e) => !lifted.has(e) && halfOf(edges[e].source) !== halfOf(edgeTarget[e]),
  );
  const ports = portsOf(
    bend.skips,
    (e) => edges[e].source,
    (e) => edgeTarget[e],
  );
  const aside = TURN + LANE * turns.length;
  const way = wayAlong(placed, plan, bend, ports, sizes);
  if (!way) return null;
  const along = (at: number, half: 0 | 1) => aside + way.along(at, half);
  const [first, last] = ([0, 1] as const).map((half) => reachOf(placed, plan, halfOf, half, sizes));
  const shift = [-first.low, first.high - first.low + CHANNEL - last.low];
  const x = placed.x.map((at, v) => at + shift[halfOf(v)]);
  const y = placed.y.map((at, v) => along(at, halfOf(v)));
  const boxHalf = frames.map((): 0 | 1 => 0);
  boxes.of.forEach((box, v) => {
    for (let f = box; f >= 0; f = frames[f].parent) boxHalf[f] = halfOf(v);
  });
  const borders = boxHalf.map((half, f) =>
    [boxes.top[f], boxes.top[f] + boxes.height[f]].map((at) => along(at, half)),
  );
  const lines = new Map<number, number[]>();
  const channel: [number, number] = [first.high + shift[0], last.low + shift[1]];
  for (const e of bend.skips) {
    const [w, u] = [edges[e].source, edgeTarget[e]];
    const [p, q] = ports.get(e) ?? [0, 0];
    const from: Point = [x[w] - sizes.border(w), y[w] + p];
    lines.set(e, acrossLine(from, [x[u] + sizes.border(u), y[u] + q], channel));
  }
  turns.forEach((e, i) => {
    const near = (v: number): Point => [x[v], y[v] - sizes.along(v) / 2];
    const [from, to] = [near(edges[e].source), near(edgeTarget[e])];
    const at = aside - TURN / 2 - LANE * (i + 1);
    lines.set(e, cornered([from, [from[0], at], [to[0], at], to]));
  });
  return {
    ...placed,
    ...{ x, y, height: aside + way.length, width: last.high + shift[1] },
    boxes: {
      ...boxes,
      left: boxes.left.map((at, f) => at + shift[boxHalf[f]]),
      top: boxes.top.map((_, f) => Math.min(...borders[f])),
      height: boxes.height.map((_, f) => Math.abs(borders[f][1] - borders[f][0])),
    },
    route: (e) => {
      const half = halfOf(edges[e].source);
      return placed.route(e).map(([px, py]) => [px + shift[half], along(py, half)]);
    },
    apart: placed.apart.map((is, e) => (lines.has(e) ? 1 : is)),
    isMirrored: Uint8Array.from(edges, ({ source }) => halfOf(source)),
    lines,
  };
}

/** The distance from the turn of every place in either half, and of the farthest one; null if the halves overlap. */
function wayAlong(
  placed: Placement,
  { edges, frames }: Plan,
  bend: Bend,
  ports: ReadonlyMap<number, readonly [number, number]>,
  sizes: Extents,
): { along: (at: number, half: 0 | 1) => number; length: number } | null {
  const { columns, columnOf } = columnsOf(placed, frames, sizes);
  const isLast = placed.owner.map((v) => bend.isLast[v]);
  const cut = columnOf.reduce((most, c, v) => (isLast[v] ? Math.max(most, c + 1) : most), 0);
  if (columnOf.some((c, v) => c < cut !== (isLast[v] === 1))) return null;
  const middle = (columns[cut - 1].high + columns[cut].low) / 2;
  const away = (at: number) => Math.abs(at - middle);
  const halves = [columns.slice(cut), columns.slice(0, cut).reverse()].map((half) =>
    half.map(({ low, high }): Column => {
      const [a, b] = [away(low), away(high)];
      return { low: Math.min(a, b), high: Math.max(a, b) };
    }),
  );
  const pairs = bend.skips.map((e): Pair => {
    const [w, u] = [edges[e].source, placed.edgeTarget[e]];
    const [i, j] = [columnOf[u] - cut, cut - 1 - columnOf[w]];
    const [p, q] = ports.get(e) ?? [0, 0];
    const [oi, oj] = [away(placed.y[u]) + q, away(placed.y[w]) + p];
    return { i, j, oi: oi - halves[0][i].low, oj: oj - halves[1][j].low };
  });
  const starts = aligned(halves, pairs);
  const along = (distance: number, half: 0 | 1) => moved(distance, halves[half], starts[half]);
  const ends = ([0, 1] as const).map((half) =>
    along(halves[half][halves[half].length - 1].high, half),
  );
  return { along: (at, half) => along(away(at), half), length: Math.max(...ends) };
}

/** A line between the halves, straight outside the channel between them. */
function acrossLine(from: Point, to: Point, channel: readonly [number, number]): number[] {
  const low = channel[1];
  // Its end points to its node, also where the channel begins there.
  const high = Math.max(channel[0], to[0] + SHAFT);
  const turn = (low + high) / 2;
  return [
    ...straight([from, [low, from[1]]]),
    ...[turn, from[1], turn, to[1], high, to[1]],
    ...straight([[high, to[1]], to]).slice(2),
  ];
}

/** Per edge, where it leaves and arrives beside the middle of its nodes' borders, px: several on one border spread. */
function portsOf(
  skips: readonly number[],
  ...ends: ((edge: number) => number)[]
): Map<number, [number, number]> {
  const ports = new Map(skips.map((e): [number, [number, number]] => [e, [0, 0]]));
  ends.forEach((endOf, side) => {
    const at = new Map<number, number[]>();
    for (const e of skips) at.set(endOf(e), [...(at.get(endOf(e)) ?? []), e]);
    for (const shared of at.values())
      shared.forEach((e, i) => {
        const port = ports.get(e);
        if (port) port[side] = (i - (shared.length - 1) / 2) * PORT;
      });
  });
  return ports;
}

/** A bypass: its columns in the two halves, and its offsets within them. */
interface Pair {
  i: number;
  j: number;
  oi: number;
  oj: number;
}

/** Where the columns of both halves start, so that as many bypasses as possible are straight. */
function aligned(halves: Column[][], pairs: readonly Pair[]): number[][] {
  const starts: number[][] = [[], []];
  const fill = (half: number, upTo: number) => {
    const [columns, at] = [halves[half], starts[half]];
    for (let k = at.length; k <= upTo; k++)
      at.push(k === 0 ? 0 : at[k - 1] + columns[k].low - columns[k - 1].low);
  };
  let fixed = [-1, -1];
  for (const { i, j, oi, oj } of pairs) {
    fill(0, i);
    fill(1, j);
    const lag = starts[0][i] + oi - starts[1][j] - oj;
    if (lag > 0 && j > fixed[1]) starts[1][j] += lag;
    if (lag < 0 && i > fixed[0]) starts[0][i] -= lag;
    fixed = [Math.max(fixed[0], i), Math.max(fixed[1], j)];
  }
  halves.forEach((columns, half) => {
    fill(half, columns.length - 1);
  });
  return starts;
}

/** Move a distance along with its column; between columns, evenly. */
function moved(at: number, columns: readonly Column[], starts: readonly number[]): number {
  let k = columns.length - 1;
  while (k > 0 && at < columns[k].low) k--;
  const { low, high } = columns[k];
  if (at <= high || k === columns.length - 1) return starts[k] + at - low;
  const [end, next] = [starts[k] + high - low, starts[k + 1]];
  return end + ((at - high) / (columns[k + 1].low - high)) * (next - end);
}

/** How far a half reaches across the flow. */
function reachOf(
  placed: Placement,
  { edges, frames }: Plan,
  halfOf: (node: number) => number,
  half: number,
  sizes: Extents,
): Column {
  let [low, high] = [Infinity, -Infinity];
  const widen = (from: number, to: number) => {
    low = Math.min(low, from);
    high = Math.max(high, to);
  };
  placed.x.forEach((x, v) => {
    if (halfOf(v) !== half) return;
    widen(x - sizes.before(v), x + sizes.after(v));
    const box = placed.boxes.of[v];
    for (let f = box; f >= 0; f = frames[f].parent) {
      const { left, width } = placed.boxes;
      widen(left[f], left[f] + width[f]);
    }
  });
  edges.forEach(({ source }, e) => {
    if (halfOf(source) !== half || halfOf(placed.edgeTarget[e]) !== half) return;
    for (const [x] of placed.route(e)) widen(x, x);
  });
  return { low, high };
}

/** Bypasses that would cross other nodes, or boxes around neither of their ends. */
export function barredSkips(
  placed: Placement,
  { edges, frames }: Plan,
  bend: Bend,
  sizes: Extents,
): number[] {
  const { x, y, lines, boxes, owner } = placed;
  const isNear = (at: number, low: number, high: number) => at > low - MARGIN && at < high + MARGIN;
  const around = (v: number): Set<number> => {
    const found = new Set<number>();
    for (let f = boxes.of[v]; f >= 0; f = frames[f].parent) found.add(f);
    return found;
  };
  const isLast = (v: number) => bend.isLast[owner[v]] === 1;
  const frameIn = frames.map(() => -1);
  x.forEach((_, v) => {
    for (const f of around(v)) frameIn[f] = v;
  });
  return bend.skips.filter((e) => {
    const curve = lines?.get(e);
    if (!curve) return true;
    const ends = [edges[e].source, placed.edgeTarget[e]];
    const [start, end] = [curve[1], curve[curve.length - 1]];
    // Towards the other half.
    const isOver = (v: number, middle: number, low: number, high: number) =>
      isLast(v)
        ? middle < x[ends[0]] && isNear(start, low, high)
        : middle > x[ends[1]] && isNear(end, low, high);
    const own = new Set(ends.flatMap((v) => [...around(v)]));
    return (
      x.some((at, v) => {
        const half = sizes.along(v) / 2;
        return !ends.includes(v) && isOver(v, at, y[v] - half, y[v] + half);
      }) ||
      frames.some((_, f) => {
        const middle = boxes.left[f] + boxes.width[f] / 2;
        const [low, high] = [boxes.top[f], boxes.top[f] + boxes.height[f]];
        return frameIn[f] >= 0 && !own.has(f) && isOver(frameIn[f], middle, low, high);
      })
    );
  });
}
