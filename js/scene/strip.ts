import type { Measure } from "../text/measure";
import { shortCount } from "../text/number";
import { oneLine, shortenMiddle } from "../text/shorten";
import type { GraphModel } from "../wire";
import { boundsOf } from "./curve";
import { boxOf } from "./find";
import { fittedWords, type SceneFrame, TITLE_LEFT } from "./frame";
import { edgePart } from "./members";
import type { NodeShape, Text } from "./node_shape";
import type { Plan, Strip } from "./plan";
import type { SceneEdge, SceneNode } from "./scene";
import { kindOfMerged, tensorsIn } from "./shown_graph";
import type { Size } from "./views";

/** Room above and below a row's bars: for the head, and for their names. Px. */
const HEAD = 32;
/** From the border to the bars along the row. */
const PAD = 12;
/** The height of bars, and their width in a vertical strip. */
const TALL = 72;
const LONG = 150;
/** From one bar to the next: ideal, least with numbers, and without. */
const PITCH = { ideal: 56, least: 40, plain: 34 };
const ROW = { ideal: 26, plain: 20 };
/** A strip's share of the room, which leaves some for its neighbours; a wide one takes more for numbers. */
const SHARE = 0.5;
const MOST_SHARE = 0.7;
const WIDE = 1000;
/** A bar's share of its pitch. */
const FILLED = 0.84;
/** Room for a name, px. */
const NAME = 15;
/** The intervals of named bars. */
const EVERY = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

/** A strip's measures, px. */
interface Measures {
  /** From one bar to the next, along the row. */
  pitch: number;
  width: number;
  height: number;
}

/** A strip's size: bars side by side, or below each other if data flows down. */
function measuresOf({ blocks }: Strip, horizontal: boolean, { width, height }: Size): Measures {
  const count = blocks.length;
  if (!horizontal) {
    const most = (SHARE * height) / count;
    const pitch = Math.min(most >= ROW.plain ? ROW.ideal : ROW.plain, most);
    return { pitch, width: LONG + 2 * PAD + 2 * HEAD, height: HEAD + count * pitch + PAD };
  }
  const row = (SHARE * width - 2 * PAD) / count;
  const most = (MOST_SHARE * width - 2 * PAD) / count;
  const isWide = width >= WIDE && most >= PITCH.least;
  const pitch = isWide
    ? Math.max(PITCH.least, Math.min(PITCH.ideal, row))
    : Math.min(PITCH.plain, row);
  return { pitch, width: count * pitch + 2 * PAD, height: TALL + 2 * HEAD };
}

/** A strip's room in the layout. */
export function stripShape(
  strip: Strip,
  horizontal: boolean,
  measure: Measure,
  room: Size,
): NodeShape {
  const { width: row, height } = measuresOf(strip, horizontal, room);
  const least = measure(oneLine(strip.title), "title") + TITLE_LEFT + 60;
  const width = Math.max(row, Math.min(240, least));
  const size = { width, height, outerWidth: width, outerHeight: height };
  return { ...size, outline: 0, flagHeight: 0, texts: [], stubs: [] };
}

/** A placed strip: its bars in the order of the data, and their frame. */
interface PlacedStrip {
  bars: Omit<SceneNode, "index">[];
  frame: SceneFrame;
}

/** A strip's place in a picture. */
interface StripPlace {
  at: Pick<SceneNode, "x" | "y" | "rank" | "shape">;
  /** Its number among the strips. */
  number: number;
  horizontal: boolean;
  /** Whether data flows to the left, or up. */
  isReversed: boolean;
  /** The number of frames around it. */
  depth: number;
}

/** Put a strip's bars at its place. */
export function placeStrip(
  strip: Strip,
  { at, number, horizontal, depth, ...flow }: StripPlace,
  measure: Measure,
  room: Size,
): PlacedStrip {
  const { blocks, links } = strip;
  const { pitch } = measuresOf(strip, horizontal, room);
  // Blocks may run in reverse numerical order.
  const isTurned = links.length > 0 && links[0].source < links[0].target;
  const isReversed = flow.isReversed !== isTurned;
  const { width, height } = at.shape;
  const [left, top] = [at.x - width / 2, at.y - height / 2];
  const thick = FILLED * pitch;
  const [w, h] = horizontal ? [thick, TALL] : [LONG, thick];
  const widest = blocks.reduce((most, { name }) => Math.max(most, measure(name, "title")), 0);
  const taken = horizontal ? widest + 8 : NAME;
  const every = EVERY.find((one) => one * pitch >= taken) ?? blocks.length;
  const start = horizontal ? (width - blocks.length * pitch) / 2 : HEAD;
  const bars = blocks.map(({ id, group, name, isAgain }, i): Omit<SceneNode, "index"> => {
    const along = start + ((isReversed ? blocks.length - 1 - i : i) + 0.5) * pitch;
    const words: Text = horizontal
      ? { text: name, style: "title", x: 0, y: TALL / 2 + 18, anchor: "middle" }
      : { text: name, style: "title", x: -LONG / 2 - 8, y: 4.5, anchor: "end" };
    const isNamed = i % every === 0 && every < blocks.length;
    return {
      id,
      leaf: false,
      root: false,
      copies: 1,
      x: horizontal ? left + along : at.x,
      y: horizontal ? at.y : top + along,
      rank: at.rank,
      shape: {
        ...{ width: w, height: h, outerWidth: w, outerHeight: h, outline: 0, flagHeight: 0 },
        ...{ texts: isNamed ? [words] : [], stubs: [] },
      },
      group,
      bar: { strip: number, grows: horizontal ? "up" : "right", room: FILLED * pitch, isAgain },
    };
  });
  return { bars, frame: { ...headOf(strip, width, measure), depth, ...boxOf(at) } };
}

/** The words above the bars: their name, count, class and size. */
function headOf(
  { path, isAlone, title, kind, each, larger, again, blocks, shared }: Strip,
  width: number,
  measure: Measure,
): Pick<SceneFrame, "path" | "title" | "facts" | "isFixed"> {
  const left = isAlone ? TITLE_LEFT : PAD;
  const count = `×${blocks.length}`;
  const room = width - left - measure(count, "title") - 3 * PAD;
  const name = fittedWords(title, room, measure);
  let at = left + measure(name, "title") + 10;
  const facts: Text[] = [{ text: count, style: "title", x: at, y: 17.5, anchor: "start" }];
  at += measure(count, "title") + 12;
  const sizes = [...(again === null ? [] : [again]), ...(each === null ? [] : [shortCount(each)])];
  const known = shared === undefined ? "" : `${shortCount(shared)} params`;
  const more = larger ? `, ${larger.name} has ${shortCount(larger.by)} more` : "";
  const size = sizes.length === 0 ? known : `${sizes.join(" · ")} each${more}`;
  const right = width - PAD - (size === "" ? 0 : measure(size, "cell"));
  if (kind !== null) {
    const text = shortenMiddle(oneLine(kind), right - at - 12, (part) => measure(part, "cell"));
    // Shorter text does not help.
    if (text.length > 5 || text === kind)
      facts.push({ text, style: "cell", x: at, y: 17.5, anchor: "start" });
  }
  if (size !== "" && right > at)
    facts.push({ text: size, style: "cell", x: width - PAD, y: 17.5, anchor: "end" });
  return { path, title: name, facts, ...(!isAlone && { isFixed: true }) };
}

/** The edges of a picture with strips, from bar to bar, and the arrows between neighbours. */
export function edgesOnBars(
  graph: GraphModel,
  { nodes, edges: lines }: Plan,
  edges: readonly SceneEdge[],
  first: ArrayLike<number>,
  drawn: readonly SceneNode[],
  horizontal: boolean,
): SceneEdge[] {
  /** Per graph node in a strip, the strip and the block. */
  const stripOf = new Int32Array(graph.nodes.length).fill(-1);
  const blockOf = new Int32Array(graph.nodes.length);
  nodes.forEach(({ strip }, item) => {
    strip?.blocks.forEach(({ group }, i) => {
      for (const id of group.members) {
        stripOf[id] = item;
        blockOf[id] = i;
      }
    });
  });
  /** The bar at an edge's end, and whether the edge reaches it. */
  const barAt = (item: number, edge: SceneEdge, end: "source" | "target") => {
    const strip = nodes[item]?.strip;
    if (!strip) return null;
    const blocks = new Set<number>();
    for (const e of lines[edge.index].edges) {
      const id = graph.edges[e][end];
      if (stripOf[id] === item) blocks.add(blockOf[id]);
    }
    const at = (end === "source" ? 0 : edge.curve.length - 2) + (horizontal ? 0 : 1);
    const away = ({ x, y }: SceneNode) => Math.abs(edge.curve[at] - (horizontal ? x : y));
    const ends = [drawn[first[item]], drawn[first[item] + strip.blocks.length - 1]];
    const nearest = away(ends[0]) <= away(ends[1]) ? ends[0] : ends[1];
    const [block] = blocks;
    const bar = blocks.size === 1 ? drawn[first[item] + block] : nearest;
    return { bar, reaches: bar === nearest };
  };
  const joined = edges.map((edge): SceneEdge => {
    let { curve } = edge;
    const [from, to] = [barAt(edge.source, edge, "source"), barAt(edge.target, edge, "target")];
    if (from?.reaches) curve = reachBar(curve, from.bar, horizontal, "start");
    if (to?.reaches) curve = reachBar(curve, to.bar, horizontal, "end");
    const source = from?.bar.index ?? first[edge.source];
    const target = to?.bar.index ?? first[edge.target];
    return { ...edge, source, target, curve, bounds: boundsOf(curve) };
  });
  nodes.forEach(({ strip }, item) => {
    for (const { source, target, edges: parts, folded } of strip?.links ?? []) {
      const [from, to] = [drawn[first[item] + source], drawn[first[item] + target]];
      const curve = linkCurve(from, to, horizontal);
      joined.push({
        index: joined.length,
        source: from.index,
        target: to.index,
        curve,
        bounds: boundsOf(curve),
        label: null,
        backward: false,
        merged: {
          edges: parts,
          folded,
          count: 1,
          tensors: tensorsIn(graph, parts, folded),
          signs: [],
        },
        ...edgePart(kindOfMerged(graph, parts)),
      });
    }
  });
  return joined;
}

/** Extend an edge from a strip's border to the side or top of a bar. */
function reachBar(
  curve: Float64Array,
  bar: Pick<SceneNode, "x" | "y" | "shape">,
  horizontal: boolean,
  end: "start" | "end",
): Float64Array {
  const at = end === "start" ? 0 : curve.length - 2;
  const [x, y] = [curve[at], curve[at + 1]];
  const [w, h] = [bar.shape.width / 2, bar.shape.height / 2];
  const isBeside = horizontal ? Math.abs(y - bar.y) < h - 4 : Math.abs(x - bar.x) < w - 4;
  if (!isBeside) return curve;
  const [bx, by] = horizontal
    ? [x < bar.x ? bar.x - w : bar.x + w, y]
    : [x, y < bar.y ? bar.y - h : bar.y + h];
  const piece = (ax: number, ay: number, zx: number, zy: number) => [
    ...[ax + (zx - ax) / 3, ay + (zy - ay) / 3],
    ...[ax + (2 * (zx - ax)) / 3, ay + (2 * (zy - ay)) / 3],
  ];
  return end === "end"
    ? Float64Array.of(...curve, ...piece(x, y, bx, by), bx, by)
    : Float64Array.of(bx, by, ...piece(bx, by, x, y), ...curve);
}

/** The short arrow from one bar to its neighbour, along the middle of the row. */
function linkCurve(
  from: Pick<SceneNode, "x" | "y" | "shape">,
  to: Pick<SceneNode, "x" | "y" | "shape">,
  horizontal: boolean,
): SceneEdge["curve"] {
  const side = Math.sign(horizontal ? to.x - from.x : to.y - from.y);
  const w = horizontal ? (side * from.shape.width) / 2 : 0;
  const h = horizontal ? 0 : (side * from.shape.height) / 2;
  const [ax, ay, bx, by] = [from.x + w, from.y + h, to.x - w, to.y - h];
  const [dx, dy] = [(bx - ax) / 3, (by - ay) / 3];
  return Float64Array.of(ax, ay, ax + dx, ay + dy, bx - dx, by - dy, bx, by);
}
