import { layoutComponent } from "../component";
import { type Part, pack, split } from "../components";
import { makeGraph } from "../graph";

/** What lies directly in one box, as a graph: items, then ports on the box's border, and the lines between them. */
export interface Content {
  /** Number of items. */
  inside: number;
  /** Sizes of the items, px. */
  width: Float64Array;
  height: Float64Array;
  /** How far their x is right of their middles, px. */
  lean: Float64Array;
  /** Widths to judge orders by, which do not change when an item is opened, px. */
  nominal: Float64Array;
  /** Per port, 1 on the top border, 0 on the bottom border. */
  isTop: Uint8Array;
  /** Per line, the items or ports (counted on from `inside`) that it joins. */
  source: Int32Array;
  target: Int32Array;
  /** Per line, where it leaves and arrives, px right of the items' x; NaN leaves it free. */
  leave: Float64Array;
  arrive: Float64Array;
}

/** Places of items and ports, rows, and per line its points (x, y, x, y, ...); the top left corner is at 0, 0. Px. */
export interface PlacedContent {
  x: Float64Array;
  y: Float64Array;
  rank: Int32Array;
  lines: number[][];
  detour: Uint8Array;
  width: number;
  height: number;
}

export interface Gaps {
  nodeGap: number;
  rankGap: number;
  edgeGap: number;
  /** Between a border's ports and the next row, px. */
  topGap: number;
  bottomGap: number;
  /** Wanted width over height, if any. */
  aspect: number | undefined;
}

/** Contents laid out before, by all that they depend on. */
export type ContentCache = Map<string, PlacedContent>;

/** Larger contents are rarely alike, and telling takes time. */
const LARGEST_CACHED = 300;

/** Like `layoutContent`, but blocks that are alike, as those of a deep net are, cost the time of one. */
export function layoutCached(content: Content, gaps: Gaps, cache: ContentCache): PlacedContent {
  if (content.inside + content.source.length > LARGEST_CACHED) return layoutContent(content, gaps);
  const key = [...Object.values(content), ...Object.values(gaps)].join(" ");
  let placed = cache.get(key);
  if (!placed) {
    placed = layoutContent(content, gaps);
    cache.set(key, placed);
  }
  return placed;
}

/** Lays out what lies directly in a box. Nothing lies between a port and the border above or below it. */
function layoutContent(content: Content, gaps: Gaps): PlacedContent {
  const { inside, isTop, source, target } = content;
  const n = inside + isTop.length;
  const parts = split(makeGraph(n, source, target));
  const laidOut = parts.map(({ nodes, edges, graph }) => {
    const own = nodes.filter((v) => v < inside);
    const sizes = (of: Float64Array) => Float64Array.from(nodes, (v) => (v < inside ? of[v] : 0));
    return layoutComponent(graph, sizes(content.width), sizes(content.height), gaps, {
      inside: own.length,
      isTop: Uint8Array.from(nodes.subarray(own.length), (v) => isTop[v - inside]),
      topGap: gaps.topGap,
      bottomGap: gaps.bottomGap,
      leave: Float64Array.from(edges, (e) => content.leave[e]),
      arrive: Float64Array.from(edges, (e) => content.arrive[e]),
      lean: sizes(content.lean),
      nominal: sizes(content.nominal),
    });
  });
  const { left, top, width, height } = arrange(parts, laidOut, inside, gaps);
  const result: PlacedContent = {
    x: new Float64Array(n),
    y: new Float64Array(n),
    rank: new Int32Array(n),
    lines: new Array(source.length),
    detour: new Uint8Array(source.length),
    width,
    height,
  };
  parts.forEach((part, c) => {
    const { x, y, rank, detour, lines } = laidOut[c];
    part.nodes.forEach((v, i) => {
      result.x[v] = x[i] + left[c];
      result.y[v] = y[i] + top[c];
      result.rank[v] = rank[i];
    });
    part.edges.forEach((e, k) => {
      const points = lines.points.slice(lines.start[k], lines.start[k + 1]);
      result.lines[e] = points.map((value, at) => value + (at % 2 ? top[c] : left[c]));
      result.detour[e] = detour[k];
    });
  });
  return result;
}

/** Components with ports stand in one row, so that lines reach the border; the others are packed to their right. */
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
