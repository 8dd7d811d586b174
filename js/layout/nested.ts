import type { Content } from "./component";
import { layoutCached } from "./content";
import { type Graph, type Grouped, group, makeGraph, pickHanging } from "./graph";
import { addPoint, flatten } from "./lines";
import type { BoxInput, ContentCache, DrawnGraph, Gaps, LaidOut, PlacedGraph } from "./types";

/**
 * Lay out boxes in boxes: each box' content is a graph of its own (content), innermost first, and the box is a node of
 * the content around it. Lines pass borders through ports (passages) at the places that the inner layout chose, so each
 * is one line from node to node. Opening a box changes only sizes around it: outside, rows and their order stay within
 * each connected part (without the option `aspect`, which breaks columns by size). The inside follows
 * the outside: parts and ports are in the order of the lines around.
 */

/** The space around a box' content, px. */
interface BoxFrame {
  header: number;
  padding: number;
  side: number;
  /** Whether long content is wrapped, and the outermost items. */
  wrapsBoxes: boolean;
  wrapsWhole: boolean;
}

/** A common width for comparing orders of different boxes, px. */
const NOMINAL_WIDTH = 120;

/** The longest content that is not wrapped, as a share of the whole picture's limit. */
const INNER = 0.75;

/** The least distance from a border's room to the first or last row, px. */
const LEAST_GAP = 8;

/** In a larger graph, contents do not follow the lines around them. */
const LARGEST = 2000;

/** Lay out a graph with nodes in boxes. Throws an Error with a sentence if the boxes do not nest. */
export function placeInBoxes(
  graph: DrawnGraph,
  boxes: BoxInput,
  gaps: Gaps,
  frame: BoxFrame,
  cache: ContentCache,
): PlacedGraph {
  const boxOf = boxesOfDrawn(graph, boxes.of);
  const nesting = nest(boxOf, boxes.parent);
  const ways = passages(nesting, graph.source, graph.target);
  // A line through a border can also bend in the border's room.
  const topGap = Math.max(LEAST_GAP, gaps.rankGap - frame.header);
  const bottomGap = Math.max(LEAST_GAP, gaps.rankGap - frame.padding);
  const placing = new BoxPlacing(nesting, ways, graph, { ...frame, ...boxes });
  const placed = placing.run({ ...gaps, topGap, bottomGap }, cache);
  const { left, top } = origins(nesting, placed);

  const { n, parent } = nesting;
  const count = boxes.parent.length;
  const detour = new Uint8Array(graph.target.length);
  const lines = ways.paths.map((path, e) => {
    const points: number[] = [];
    for (const k of path) {
      const b = ways.lineBox[k] - n;
      const line = placed.lines[k];
      if (placed.detour[k]) detour[e] = 1;
      for (let i = 0; i < line.length; i += 2) {
        addPoint(points, 0, line[i] + left[b], line[i + 1] + top[b]);
      }
    }
    return ways.backward[e] ? turnAround(points) : points;
  });
  return {
    x: Float64Array.from(graph.owner, (_, v) => left[parent[v] - n] + placed.x[v]),
    y: Float64Array.from(graph.owner, (_, v) => top[parent[v] - n] + placed.y[v]),
    rank: placed.rank,
    detour,
    width: placed.width[count],
    height: placed.height[count],
    lines: flatten(lines),
    boxes: {
      of: boxOf,
      left: left.slice(0, count),
      top: top.slice(0, count),
      width: placed.width.slice(0, count),
      height: placed.height.slice(0, count),
    },
    backward: ways.backward,
  };
}

/** Per drawn node, its box; a shared leaf is in its user's box. */
function boxesOfDrawn(graph: DrawnGraph, box: ArrayLike<number>): Int32Array {
  const { owner, ofOneUse, source, target } = graph;
  const boxOf = Int32Array.from(owner, (v) => box[v]);
  for (let e = 0; e < target.length; e++) {
    if (ofOneUse[target[e]]) boxOf[target[e]] = box[source[e]];
  }
  return boxOf;
}

/** Places within the box around, and sizes of boxes; indexed by node, item, box and line as in the passages. */
interface PlacedItems {
  /** Per item, its centre; for a box, the place of its middle line. */
  x: Float64Array;
  y: Float64Array;
  rank: Int32Array;
  /** Per box (the whole picture last), its size and its middle line's distance from its left border. */
  width: Float64Array;
  height: Float64Array;
  middle: Float64Array;
  lines: number[][];
  detour: Uint8Array;
}

/** Lay out the boxes from the inside out, inner boxes as plain nodes. */
class BoxPlacing {
  readonly placed: PlacedItems;
  private readonly items: number;
  private readonly count: number;
  private readonly portsOf: number[][];
  private readonly linesOf: number[][];
  private readonly portX: Float64Array;
  /** Per port, the place of its line outside the box; NaN if unknown. */
  private readonly wish: Float64Array;
  /** Per item and port, its index in the current box. */
  private readonly local: Int32Array;

  constructor(
    private readonly nesting: Nesting,
    private readonly ways: Passages,
    private readonly node: DrawnGraph,
    private readonly frame: BoxFrame & Pick<BoxInput, "titleWidth" | "isOuter">,
  ) {
    const { n, parent } = nesting;
    this.items = parent.length;
    this.count = this.items - n;
    this.portsOf = listByBox(ways.portBox, n, this.count);
    this.linesOf = listByBox(ways.lineBox, n, this.count);
    this.portX = new Float64Array(ways.portBox.length);
    this.wish = new Float64Array(ways.portBox.length).fill(Number.NaN);
    this.local = new Int32Array(this.items + this.portX.length);
    this.placed = {
      x: new Float64Array(this.items),
      y: new Float64Array(this.items),
      rank: new Int32Array(n),
      width: new Float64Array(this.count),
      height: new Float64Array(this.count),
      middle: new Float64Array(this.count),
      lines: new Array(ways.lineBox.length),
      detour: new Uint8Array(ways.lineBox.length),
    };
  }

  run(gaps: Gaps, cache: ContentCache): PlacedItems {
    const { nesting, count, frame } = this;
    const { n, depth } = nesting;
    // A box' content shares the picture's length with its neighbours.
    const inner = { ...gaps, long: frame.wrapsBoxes ? INNER * gaps.long : Infinity };
    const inwards = Array.from({ length: count }, (_, b) => b).sort(
      (a, b) => depth[n + b] - depth[n + a] || a - b,
    );
    const whole = frame.wrapsWhole ? gaps : { ...gaps, long: Infinity };
    const spaced = (b: number) => (b === count - 1 ? whole : frame.isOuter?.[b] ? gaps : inner);
    if (this.items <= LARGEST)
      for (const b of [...inwards].reverse()) this.follow(b, spaced(b), cache);
    for (const b of inwards) {
      const own = this.ownOf(b);
      this.settle(b, own, layoutCached(this.describe(b, own), spaced(b), cache));
    }
    return this.placed;
  }

  /** The items in a box, numbered together with its ports. */
  private ownOf(b: number): Int32Array {
    const { n, content } = this.nesting;
    const { portsOf, local, items } = this;
    const own = content.item.subarray(content.start[n + b], content.start[n + b + 1]);
    own.forEach((item, i) => {
      local[item] = i;
    });
    portsOf[b].forEach((port, i) => {
      local[items + port] = own.length + i;
    });
    return own;
  }

  /**
   * Find the order of the lines around the boxes in a box, from a layout in which all are closed: then it does not
   * depend on them.
   */
  private follow(b: number, gaps: Gaps, cache: ContentCache): void {
    const { ways, wish, linesOf, local } = this;
    const ports = linesOf[b].flatMap((k) => [ways.fromPort[k], ways.toPort[k]]);
    const inside = ports.filter((port) => port >= 0);
    const borders = new Set(inside.map((port) => 2 * ways.portBox[port] + ways.portIsTop[port]));
    if (borders.size === inside.length) return;
    const unwrapped = { ...gaps, aspect: undefined };
    const closed = layoutCached(this.describeClosed(b, this.ownOf(b)), unwrapped, cache);
    const { x, rank, lines } = closed;
    linesOf[b].forEach((k, i) => {
      const [from, to] = [local[ways.from[k]], local[ways.to[k]]];
      // Where a line passes the next row; at a node its middle, as its ports depend on other boxes.
      const isDirect = rank[to] - rank[from] === 1;
      const [upper, lower] = [ways.fromPort[k], ways.toPort[k]];
      if (upper >= 0) wish[upper] = isDirect ? x[to] : lines.points[lines.start[i] + 2];
      if (lower >= 0) wish[lower] = isDirect ? x[from] : lines.points[lines.start[i + 1] - 4];
    });
  }

  /** A box' content; inner boxes are plain nodes with fixed lines. */
  private describe(b: number, own: Int32Array): Content {
    const { placed, portX, portsOf, linesOf, node, ways } = this;
    const { n } = this.nesting;
    const at = (port: number) =>
      port < 0 ? Number.NaN : portX[port] - placed.middle[ways.portBox[port] - n];
    return {
      graph: this.graphOf(b, own),
      width: Float64Array.from(own, (i) => (i < n ? node.width[i] : placed.width[i - n])),
      height: Float64Array.from(own, (i) => (i < n ? node.height[i] : placed.height[i - n])),
      hanging: node.hanging && pickHanging(node.hanging, own),
      border: {
        lean: Float64Array.from(own, (i) =>
          i < n ? 0 : placed.middle[i - n] - placed.width[i - n] / 2,
        ),
        nominal: new Float64Array(own.length).fill(NOMINAL_WIDTH),
        isTop: Uint8Array.from(portsOf[b], (port) => ways.portIsTop[port]),
        wish: Float64Array.from(portsOf[b], (port) => this.wish[port]),
        leave: Float64Array.from(linesOf[b], (k) => at(ways.fromPort[k])),
        arrive: Float64Array.from(linesOf[b], (k) => at(ways.toPort[k])),
      },
    };
  }

  /** The same with all items alike. */
  private describeClosed(b: number, own: Int32Array): Content {
    const { portsOf, linesOf, ways } = this;
    const all = (value: number) => new Float64Array(own.length).fill(value);
    const free = new Float64Array(linesOf[b].length).fill(Number.NaN);
    return {
      graph: this.graphOf(b, own),
      width: all(NOMINAL_WIDTH),
      height: all(1),
      border: {
        lean: all(0),
        nominal: all(NOMINAL_WIDTH),
        isTop: Uint8Array.from(portsOf[b], (port) => ways.portIsTop[port]),
        wish: Float64Array.from(portsOf[b], (port) => this.wish[port]),
        leave: free,
        arrive: free,
      },
    };
  }

  private graphOf(b: number, own: Int32Array): Graph {
    const { portsOf, linesOf, local, ways } = this;
    return makeGraph(
      own.length + portsOf[b].length,
      Int32Array.from(linesOf[b], (k) => local[ways.from[k]]),
      Int32Array.from(linesOf[b], (k) => local[ways.to[k]]),
    );
  }

  /** Put laid-out content into its box, and extend its lines to the borders. */
  private settle(b: number, own: Int32Array, laid: LaidOut): void {
    const { placed, portX, portsOf, linesOf, frame, ways, count, items } = this;
    const { n } = this.nesting;
    const isRoot = b === count - 1;
    const padding = isRoot ? 0 : frame.padding;
    const header = isRoot ? 0 : frame.header;
    const side = isRoot ? 0 : frame.side;
    const least = isRoot ? 0 : (frame.titleWidth?.[b] ?? 0);
    placed.width[b] = Math.max(side > 0 ? 0 : least, laid.width + 2 * padding + side);
    placed.height[b] = Math.max(side > 0 ? least : 0, header + laid.height + padding);
    const right = side + Math.round(placed.width[b] - laid.width - side) / 2;
    own.forEach((item, i) => {
      placed.x[item] = laid.x[i] + right;
      placed.y[item] = laid.y[i] + header;
      if (item < n) placed.rank[item] = laid.rank[i];
    });
    portsOf[b].forEach((port, i) => {
      portX[port] = laid.x[own.length + i] + right;
    });
    linesOf[b].forEach((k, i) => {
      const { start, points } = laid.lines;
      const line = Array.from(
        points.slice(start[i], start[i + 1]),
        (value, at) => value + (at % 2 ? header : right),
      );
      if (ways.from[k] >= items) line.unshift(portX[ways.from[k] - items], 0);
      if (ways.to[k] >= items) line.push(portX[ways.to[k] - items], placed.height[b]);
      placed.lines[k] = line;
      placed.detour[k] = laid.detour[i];
    });
    placed.middle[b] = this.middleOf(b);
  }

  /** Where most of a box' lines pass its borders, so that a chain of boxes is straight. */
  private middleOf(b: number): number {
    const { placed, portX, portsOf } = this;
    const places = portsOf[b].map((port) => portX[port]).sort((p, q) => p - q);
    let best = places.length > 0 ? places[places.length >> 1] : placed.width[b] / 2;
    let most = 1;
    for (let i = 0, j = 0; i < places.length; i = j) {
      while (j < places.length && places[j] === places[i]) j++;
      if (j - i > most) {
        most = j - i;
        best = places[i];
      }
    }
    return best;
  }
}

/** The boxes' top left corners in the whole picture, px; the whole picture last. */
function origins({ n, parent }: Nesting, placed: PlacedItems) {
  const count = placed.width.length;
  const left = new Float64Array(count);
  const top = new Float64Array(count);
  for (let b = 0; b + 1 < count; b++) {
    const around = parent[n + b] - n;
    left[b] = left[around] + placed.x[n + b] - placed.middle[b];
    top[b] = top[around] + placed.y[n + b] - placed.height[b] / 2;
  }
  return { left, top };
}

function listByBox(boxes: number[], n: number, count: number): number[][] {
  const lists: number[][] = Array.from({ length: count }, () => []);
  boxes.forEach((box, i) => {
    lists[box - n].push(i);
  });
  return lists;
}

function turnAround(points: number[]): number[] {
  const turned: number[] = [];
  for (let i = points.length - 2; i >= 0; i -= 2) turned.push(points[i], points[i + 1]);
  return turned;
}

/** Nodes in nested boxes. Items are the nodes 0..n-1, then the boxes; the last box is the whole picture. */
interface Nesting {
  n: number;
  /** Per item, its box, as an item; -1 for the whole picture. */
  parent: Int32Array;
  /** Per item, the number of boxes around it. */
  depth: Int32Array;
  /** Items by box, in the order of their first nodes. */
  content: Grouped;
}

/** `box` is per node, `boxParent` per box: the earlier box around it, -1 for none. */
export function nest(box: ArrayLike<number>, boxParent: ArrayLike<number>): Nesting {
  const n = box.length;
  const root = n + boxParent.length;
  const parent = new Int32Array(root + 1).fill(-1);
  for (let v = 0; v < n; v++) {
    parent[v] = box[v] < 0 ? root : n + box[v];
  }
  for (let b = 0; b < boxParent.length; b++) {
    parent[n + b] = boxParent[b] < 0 ? root : n + boxParent[b];
  }
  const depth = new Int32Array(root + 1);
  for (let i = n; i < root; i++) depth[i] = depth[parent[i]] + 1;
  for (let v = 0; v < n; v++) depth[v] = depth[parent[v]] + 1;
  const first = Int32Array.from(parent.keys());
  for (let i = n; i < root; i++) first[i] = root;
  for (let v = 0; v < n; v++) {
    for (let i = parent[v]; i < root && first[i] > v; i = parent[i]) first[i] = v;
  }
  const byFirst = group(root + 1, first).item;
  const content = group(
    root + 1,
    byFirst.map((i) => parent[i]),
  );
  for (let i = 0; i < content.item.length; i++) content.item[i] = byFirst[content.item[i]];
  return { n, parent, depth, content };
}

/** Each edge's path of lines, each within one box, joined by ports on borders that edges between the same items share. */
interface Passages {
  /** Per port, its box (an item), and whether it is on the top border (1) or the bottom (0). */
  portBox: number[];
  portIsTop: number[];
  /** Per line, its box, an item. */
  lineBox: number[];
  /** Per line, the item or port (counted from the number of items) at its upper and lower end. */
  from: number[];
  to: number[];
  /** Per line, the port on its end's own border; -1 if the end is not a box. */
  fromPort: number[];
  toPort: number[];
  /** Per edge, its lines from the top down. */
  paths: number[][];
  /** Per edge, 1 if it runs up because boxes form a cycle. */
  backward: Uint8Array;
}

/** Route every edge through the boxes. Self-loops have empty paths. */
function passages(
  nesting: Nesting,
  source: ArrayLike<number>,
  target: ArrayLike<number>,
): Passages {
  const { parent, depth, content } = nesting;
  const edges = Int32Array.from(source as number[], (_, e) => e).filter(
    (e) => source[e] !== target[e],
  );
  // Each edge joins two items of the innermost box around both ends.
  const a = new Int32Array(edges.length);
  const b = new Int32Array(edges.length);
  edges.forEach((e, k) => {
    let [s, t] = [source[e], target[e]];
    while (parent[s] !== parent[t]) {
      if (depth[s] >= depth[t]) s = parent[s];
      else t = parent[t];
    }
    a[k] = s;
    b[k] = t;
  });
  const isBack = backEdges(makeGraph(parent.length, a, b), content.item);
  const router = new Router(parent, source.length);
  edges.forEach((e, k) => {
    if (isBack[k])
      router.route(e, { node: target[e], item: b[k] }, { node: source[e], item: a[k] });
    else router.route(e, { node: source[e], item: a[k] }, { node: target[e], item: b[k] });
    router.result.backward[e] = isBack[k];
  });
  return router.result;
}

/** An end of an edge: its node, and the item around it in the innermost box around both ends. */
interface End {
  node: number;
  item: number;
}

class Router {
  readonly result: Passages;
  private readonly items: number;
  private readonly portAt = new Map<number, number>();
  private readonly lineAt = new Map<number, number>();

  constructor(
    private readonly parent: Int32Array,
    edges: number,
  ) {
    this.items = parent.length;
    this.result = {
      portBox: [],
      portIsTop: [],
      lineBox: [],
      from: [],
      to: [],
      fromPort: [],
      toPort: [],
      paths: Array.from({ length: edges }, () => []),
      backward: new Uint8Array(edges),
    };
  }

  /** Route an edge from its upper to its lower end. */
  route(e: number, upper: End, lower: End): void {
    const path = this.result.paths[e];
    const outOf = this.climb(upper.node, upper.item, lower.item, 0, path);
    const down: number[] = [];
    const into = this.climb(lower.node, lower.item, upper.item, 1, down);
    path.push(this.line(this.parent[upper.item], upper.item, outOf, lower.item, into));
    for (let i = down.length - 1; i >= 0; i--) path.push(down[i]);
  }

  /** Lines from a node out to the border of `outermost`, through a port on each box between; returns the last port. */
  private climb(node: number, outermost: number, beyond: number, isTop: number, path: number[]) {
    let inner = -1;
    for (let i = node; i !== outermost; i = this.parent[i]) {
      const p = this.port(i, beyond, isTop);
      path.push(
        isTop
          ? this.line(this.parent[i], this.items + p, -1, i, inner)
          : this.line(this.parent[i], i, inner, this.items + p, -1),
      );
      inner = p;
    }
    return inner;
  }

  private port(item: number, beyond: number, isTop: number): number {
    const key = (item * this.items + beyond) * 2 + isTop;
    let found = this.portAt.get(key);
    if (found === undefined) {
      found = this.result.portBox.push(this.parent[item]) - 1;
      this.result.portIsTop.push(isTop);
      this.portAt.set(key, found);
    }
    return found;
  }

  private line(box: number, from: number, fromPort: number, to: number, toPort: number): number {
    // Two edges between two plain nodes stay separate; at a box the ports separate lines.
    const isPlain = fromPort < 0 && toPort < 0 && from < this.items && to < this.items;
    const start = fromPort < 0 ? from : this.items + fromPort;
    const end = toPort < 0 ? to : this.items + toPort;
    const key = start * 2 ** 26 + end;
    let found = isPlain ? undefined : this.lineAt.get(key);
    if (found === undefined) {
      found = this.result.lineBox.push(box) - 1;
      this.result.from.push(from);
      this.result.to.push(to);
      this.result.fromPort.push(fromPort);
      this.result.toPort.push(toPort);
      if (!isPlain) this.lineAt.set(key, found);
    }
    return found;
  }
}

/**
 * Per edge, 1 if it leads back into the path of a depth-first walk, in this order of starts: it must turn around. Boxes
 * often form cycles where the graph has none, since a module can be called again after another one.
 */
export function backEdges(graph: Graph, order: Int32Array): Uint8Array {
  const { n, target, out } = graph;
  const result = new Uint8Array(target.length);
  const onPath = new Uint8Array(n);
  const seen = new Uint8Array(n);
  const next = out.start.slice(0, n);
  const path: number[] = [];
  const enter = (v: number) => {
    seen[v] = onPath[v] = 1;
    path.push(v);
  };
  const walk = (root: number) => {
    if (seen[root]) return;
    enter(root);
    while (path.length > 0) {
      const v = path[path.length - 1];
      if (next[v] === out.start[v + 1]) {
        onPath[v] = 0;
        path.pop();
        continue;
      }
      const e = out.item[next[v]++];
      const w = target[e];
      if (onPath[w]) result[e] = 1;
      else if (!seen[w]) enter(w);
    }
  };
  for (const v of order) if (graph.in.start[v] === graph.in.start[v + 1]) walk(v);
  for (const v of order) walk(v);
  return result;
}
