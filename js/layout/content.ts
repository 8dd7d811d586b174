import { type Content, layoutComponent } from "./component";
import { type Graph, type Grouped, group, makeGraph, pickHanging } from "./graph";
import type { ContentCache, Gaps, LaidOut, Lines } from "./types";

/** Larger contents are rarely alike, and comparing takes time. */
const LARGEST_CACHED = 300;

/** Like `layoutContent`, but similar blocks are laid out once. */
export function layoutCached(content: Content, gaps: Gaps, cache: ContentCache): LaidOut {
  const { graph, width, height, border, hanging } = content;
  if (graph.n + graph.source.length > LARGEST_CACHED) return layoutContent(content, gaps);
  const parts: ArrayLike<number>[] = [graph.source, graph.target, width, height];
  parts.push(...Object.values(border ?? {}), ...Object.values(hanging ?? {}));
  const key = [...parts, ...Object.values(gaps)].join(" ");
  let placed = cache.get(key);
  if (!placed) {
    placed = layoutContent(content, gaps);
    cache.set(key, placed);
  }
  return placed;
}

/** Sort components by the wanted places of their ports. */
function inWishedOrder(parts: Part[], wish: Float64Array, inside: number): Part[] {
  if (parts.length < 2 || wish.every(Number.isNaN)) return parts;
  const middle = ({ nodes }: Part) => {
    const places = Array.from(nodes, (v) => wish[v - inside]).filter((place) => place >= 0);
    return places.reduce((sum, place) => sum + place, 0) / places.length || 0;
  };
  return [...parts].sort((a, b) => middle(a) - middle(b));
}

/** Lay out the direct content of a box. No item is between a port and its border. */
export function layoutContent(content: Content, gaps: Gaps): LaidOut {
  const { graph: whole } = content;
  const inside = whole.n - (content.border?.isTop.length ?? 0);
  const parts = inWishedOrder(split(whole), content.border?.wish ?? NO_WISH, inside);
  const laidOut = parts.map((part) => layoutPart(part, content, gaps));
  const { left, top, width, height } = arrange(parts, laidOut, inside, gaps);
  const result = {
    x: new Float64Array(whole.n),
    y: new Float64Array(whole.n),
    rank: new Int32Array(whole.n),
    detour: new Uint8Array(whole.source.length),
    width,
    height,
  };
  parts.forEach((part, c) => {
    const { x, y, rank, detour } = laidOut[c];
    part.nodes.forEach((v, i) => {
      result.x[v] = x[i] + left[c];
      result.y[v] = y[i] + top[c];
      result.rank[v] = rank[i];
    });
    part.edges.forEach((e, k) => {
      result.detour[e] = detour[k];
    });
  });
  return { ...result, lines: linesOf(whole, parts, laidOut, left, top) };
}

function layoutPart({ nodes, edges, graph }: Part, content: Content, gaps: Gaps): LaidOut {
  const { border, hanging } = content;
  const sizes = (of: Float64Array) => Float64Array.from(nodes, (v) => of[v] ?? 0);
  const inside = content.width.length;
  const ports = nodes.filter((v) => v >= inside);
  const part = {
    graph,
    width: sizes(content.width),
    height: sizes(content.height),
    hanging: hanging && pickHanging(hanging, nodes),
    border: border && {
      isTop: Uint8Array.from(ports, (v) => border.isTop[v - inside]),
      wish: Float64Array.from(ports, (v) => border.wish[v - inside]),
      leave: Float64Array.from(edges, (e) => border.leave[e]),
      arrive: Float64Array.from(edges, (e) => border.arrive[e]),
      lean: sizes(border.lean),
      nominal: sizes(border.nominal),
    },
  };
  return layoutComponent(part, gaps);
}

/** The lines of all components at their places. */
function linesOf(
  whole: Graph,
  parts: readonly Part[],
  laidOut: readonly LaidOut[],
  left: Float64Array,
  top: Float64Array,
): Lines {
  const start = new Int32Array(whole.source.length + 1);
  parts.forEach(({ edges }, c) => {
    const { lines } = laidOut[c];
    edges.forEach((e, k) => {
      start[e + 1] = lines.start[k + 1] - lines.start[k];
    });
  });
  for (let e = 0; e < whole.source.length; e++) start[e + 1] += start[e];
  const points = new Float64Array(start[whole.source.length]);
  parts.forEach(({ edges }, c) => {
    const { lines } = laidOut[c];
    edges.forEach((e, k) => {
      let to = start[e];
      for (let i = lines.start[k]; i < lines.start[k + 1]; i += 2) {
        points[to++] = lines.points[i] + left[c];
        points[to++] = lines.points[i + 1] + top[c];
      }
    });
  });
  return { start, points };
}

/** Put components with ports in one row, so that lines reach the border, and pack the others to their right. */
function arrange(
  parts: Part[],
  sizes: { width: number; height: number }[],
  inside: number,
  { nodeGap, rankGap }: Gaps,
) {
  const gap = Math.max(nodeGap, rankGap);
  const hasPorts = parts.map(({ nodes }) => nodes[nodes.length - 1] >= inside);
  const rest = [...parts.keys()].filter((c) => !hasPorts[c]);
  const packed = pack(
    Float64Array.from(rest, (c) => sizes[c].width),
    Float64Array.from(rest, (c) => sizes[c].height),
    gap,
  );
  const left = new Float64Array(parts.length);
  const top = new Float64Array(parts.length);
  let right = 0;
  let bottom = 0;
  parts.forEach((_, c) => {
    if (!hasPorts[c]) return;
    left[c] = right;
    right += sizes[c].width + gap;
    bottom = Math.max(bottom, sizes[c].height);
  });
  rest.forEach((c, i) => {
    left[c] = right + packed.left[i];
    top[c] = packed.top[i];
  });
  return {
    left,
    top,
    width: rest.length > 0 ? right + packed.width : Math.max(0, right - gap),
    height: Math.max(bottom, packed.height),
  };
}

/** Group the nodes by weakly connected component, in the order of their first nodes. */
export function components(graph: Graph): Grouped {
  const { n, source, target, out } = graph;
  const component = new Int32Array(n).fill(-1);
  const queue = new Int32Array(n);
  let count = 0;
  for (let first = 0; first < n; first++) {
    if (component[first] >= 0) continue;
    component[first] = count;
    queue[0] = first;
    let tail = 1;
    const visit = (w: number) => {
      if (component[w] >= 0) return;
      component[w] = count;
      queue[tail++] = w;
    };
    for (let head = 0; head < tail; head++) {
      const v = queue[head];
      for (let i = out.start[v]; i < out.start[v + 1]; i++) visit(target[out.item[i]]);
      for (let i = graph.in.start[v]; i < graph.in.start[v + 1]; i++)
        visit(source[graph.in.item[i]]);
    }
    count++;
  }
  return group(count, component);
}

interface Part {
  nodes: Int32Array;
  edges: Int32Array;
  graph: Graph;
}

const NO_EDGES = new Int32Array(0);
const NO_WISH = new Float64Array(0);
const SINGLE = makeGraph(1, NO_EDGES, NO_EDGES);

/** The components of a graph, each renumbered from 0 in the input's order. */
function split(whole: Graph): Part[] {
  const { start, item } = components(whole);
  const count = start.length - 1;
  const local = new Int32Array(whole.n);
  const component = new Int32Array(whole.n);
  for (let c = 0; c < count; c++) {
    for (let i = start[c]; i < start[c + 1]; i++) {
      local[item[i]] = i - start[c];
      component[item[i]] = c;
    }
  }
  const edgesOf = group(
    count,
    whole.source.map((v) => component[v]),
  );
  return Array.from({ length: count }, (_, c) => {
    const nodes = item.subarray(start[c], start[c + 1]);
    if (nodes.length === 1) return { nodes, edges: NO_EDGES, graph: SINGLE };
    const edges = edgesOf.item.subarray(edgesOf.start[c], edgesOf.start[c + 1]);
    const source = edges.map((e) => local[whole.source[e]]);
    const target = edges.map((e) => local[whole.target[e]]);
    return { nodes, edges, graph: makeGraph(nodes.length, source, target) };
  });
}

/** Pack boxes in rows from left to right, in order, in more than one row only if one would be far wider than tall. */
export function pack(width: Float64Array, height: Float64Array, gap: number) {
  const k = width.length;
  const left = new Float64Array(k);
  const top = new Float64Array(k);
  let area = 0;
  let widest = 0;
  for (let i = 0; i < k; i++) {
    area += (width[i] + gap) * (height[i] + gap);
    widest = Math.max(widest, width[i]);
  }
  const limit = Math.max(widest, 1.5 * Math.sqrt(area), 640);
  let x = 0;
  let y = 0;
  let shelf = 0;
  let right = 0;
  for (let i = 0; i < k; i++) {
    if (x > 0 && x + width[i] > limit) {
      y += shelf + gap;
      x = 0;
      shelf = 0;
    }
    left[i] = x;
    top[i] = y;
    x += width[i] + gap;
    right = Math.max(right, x - gap);
    shelf = Math.max(shelf, height[i]);
  }
  return { left, top, width: right, height: k ? y + shelf : 0 };
}
