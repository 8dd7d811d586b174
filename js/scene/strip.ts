import type { Measure } from "../text/measure";
import { shortCount } from "../text/number";
import { oneLine, shortenNames } from "../text/shorten";
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
/** The height of bars with a sign inside, and with numbers above; their width in a vertical strip. */
const TALL = { inside: 72, low: 68 };
/** From the middle of a strip down to the middle of bars with numbers above, px. */
const DROP = 8;
const LONG = 150;
/** From one bar to the next: ideal, least in a wide window, and in a small one. */
const PITCH = { ideal: 56, least: 40, plain: 34 };
/** A bar at an end whose number would reach beyond the border, px. */
const SLIM = 22;
/** The widest head that its bars make room for, px. */
const MOST_HEAD = 400;
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
function measuresOf(
  strip: Strip,
  horizontal: boolean,
  { width, height }: Size,
  measure: Measure,
): Measures {
  const count = strip.blocks.length;
  if (!horizontal) {
    const most = (SHARE * height) / count;
    const pitch = Math.min(most >= ROW.plain ? ROW.ideal : ROW.plain, most);
    const name = Math.min(240, measure(oneLine(strip.title), "title") + TITLE_LEFT + 60);
    const own = LONG + 2 * PAD + 2 * HEAD;
    return { pitch, width: Math.max(own, name), height: HEAD + count * pitch + PAD };
  }
  const row = (SHARE * width - 2 * PAD) / count;
  const most = (MOST_SHARE * width - 2 * PAD) / count;
  const isWide = width >= WIDE && most >= PITCH.least;
  const least = isWide
    ? Math.max(PITCH.least, Math.min(PITCH.ideal, row))
    : Math.min(PITCH.plain, row);
  // In a small window its class has room, but not its size.
  const head = Math.min(headWidth(strip, width >= WIDE, measure), MOST_HEAD, SHARE * width);
  const own = Math.max(count * least + 2 * PAD, head);
  const pitch = Math.max(least, Math.min(PITCH.ideal, (own - 2 * PAD) / count));
  return { pitch, width: own, height: TALL.inside + 2 * HEAD };
}

/** A strip's room in the layout. */
export function stripShape(
  strip: Strip,
  horizontal: boolean,
  measure: Measure,
  room: Size,
): NodeShape {
  const { width, height } = measuresOf(strip, horizontal, room, measure);
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
  const { pitch } = measuresOf(strip, horizontal, room, measure);
  // Blocks may run in reverse numerical order.
  const isTurned = links.length > 0 && links[0].source < links[0].target;
  const isReversed = flow.isReversed !== isTurned;
  const { width, height } = at.shape;
  const [left, top] = [at.x - width / 2, at.y - height / 2];
  const thick = FILLED * pitch;
  const isAbove = !blocks.some(({ isAgain }) => isAgain);
  const tall = isAbove ? TALL.low : TALL.inside;
  const [w, h] = horizontal ? [thick, tall] : [LONG, thick];
  const widest = blocks.reduce((most, { name }) => Math.max(most, measure(name, "title")), 0);
  const taken = horizontal ? widest + 8 : NAME;
  const every = EVERY.find((one) => one * pitch >= taken) ?? blocks.length;
  const start = horizontal ? (width - blocks.length * pitch) / 2 : HEAD;
  const bars = blocks.map(({ id, group, name, isAgain }, i): Omit<SceneNode, "index"> => {
    const place = isReversed ? blocks.length - 1 - i : i;
    const along = start + (place + 0.5) * pitch;
    const isAtEnd = pitch < SLIM && (place === 0 || place === blocks.length - 1);
    const anchor = !isAtEnd ? "middle" : place === 0 ? "start" : "end";
    const words: Text = horizontal
      ? { text: name, style: "title", x: 0, y: tall / 2 + 18, anchor: "middle" }
      : { text: name, style: "title", x: -LONG / 2 - 8, y: 4.5, anchor: "end" };
    const isNamed = i % every === 0 && every < blocks.length;
    return {
      id,
      leaf: false,
      root: false,
      copies: 1,
      x: horizontal ? left + along : at.x,
      y: horizontal ? at.y + (isAbove ? DROP : 0) : top + along,
      rank: at.rank,
      shape: {
        ...{ width: w, height: h, outerWidth: w, outerHeight: h, outline: 0, flagHeight: 0 },
        ...{ texts: isNamed ? [words] : [], stubs: [] },
      },
      group,
      bar: {
        ...{ strip: number, grows: horizontal ? "up" : "right", room: FILLED * pitch, isAgain },
        ...(horizontal && isAbove && { above: anchor }),
      },
    };
  });
  return { bars, frame: { ...headOf(strip, width, measure), depth, ...boxOf(at) } };
}

/** The words above the bars: their name, count, class and size; the size goes first, then the class is cut. */
function headOf(
  strip: Strip,
  width: number,
  measure: Measure,
): Pick<SceneFrame, "path" | "title" | "facts" | "isFixed"> {
  const { path, isAlone, title, kind } = strip;
  const left = isAlone ? TITLE_LEFT : PAD;
  const count = `×${strip.blocks.length}`;
  const room = width - left - measure(count, "title") - 3 * PAD;
  const name = fittedWords(title, room, measure);
  let at = left + measure(name, "title") + 10;
  const facts: Text[] = [{ text: count, style: "title", x: at, y: 17.5, anchor: "start" }];
  at += measure(count, "title") + 12;
  const size = sizeText(strip);
  const right = width - PAD;
  const sizeWidth = size === "" ? 0 : measure(size, "cell") + PAD;
  const whole = kind === null ? 0 : measure(oneLine(kind), "cell");
  if (kind !== null) {
    const text = shortenNames(oneLine(kind), right - at, (part) => measure(part, "cell"));
    // Shorter text does not help.
    if (text.length > 5 || text === kind)
      facts.push({ text, style: "cell", x: at, y: 17.5, anchor: "start" });
  }
  if (size !== "" && at + whole + sizeWidth <= right)
    facts.push({ text: size, style: "cell", x: right, y: 17.5, anchor: "end" });
  return { path, title: name, facts, ...(!isAlone && { isFixed: true }) };
}

/** The size of its blocks, "726 K each". */
function sizeText({ each, larger, again, shared }: Strip): string {
  const sizes = [...(again === null ? [] : [again]), ...(each === null ? [] : [shortCount(each)])];
  const more = larger ? `, ${larger.name} has ${shortCount(larger.by)} more` : "";
  if (sizes.length > 0) return `${sizes.join(" · ")} each${more}`;
  return shared === undefined ? "" : `${shortCount(shared)} params`;
}

/** The width of a strip's head, px. */
function headWidth(strip: Strip, withSize: boolean, measure: Measure): number {
  const { title, kind, isAlone, blocks } = strip;
  const size = withSize ? sizeText(strip) : "";
  return (
    (isAlone ? TITLE_LEFT : PAD) +
    measure(oneLine(title), "title") +
    measure(`×${blocks.length}`, "title") +
    (kind === null ? 0 : 12 + measure(oneLine(kind), "cell")) +
    (size === "" ? 0 : PAD + measure(size, "cell")) +
    11 +
    PAD
  );
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
  /** The bars of an edge's end, one for its place, and whether the edge reaches it; an edge of several ends at the frame. */
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
    const bars = Array.from(blocks, (block) => drawn[first[item] + block].index);
    const isOther = bars.length > 0 && !bars.includes(nearest.index);
    const bar = isOther ? drawn[bars[0]] : nearest;
    return { bar, bars, reaches: bars.length === 1 && bar === nearest };
  };
  const joined = edges.map((edge): SceneEdge => {
    let { curve } = edge;
    const [from, to] = [barAt(edge.source, edge, "source"), barAt(edge.target, edge, "target")];
    if (from?.reaches) curve = reachBar(curve, from.bar, horizontal, "start");
    if (to?.reaches) curve = reachBar(curve, to.bar, horizontal, "end");
    const source = from?.bar.index ?? first[edge.source];
    const target = to?.bar.index ?? first[edge.target];
    const bars = [...(from?.bars ?? []), ...(to?.bars ?? [])];
    return { ...edge, source, target, bars, curve, bounds: boundsOf(curve) };
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

/** The short arrow from one bar to its neighbour, along the middle of the strip. */
function linkCurve(from: SceneNode, to: SceneNode, horizontal: boolean): SceneEdge["curve"] {
  const side = Math.sign(horizontal ? to.x - from.x : to.y - from.y);
  const w = horizontal ? (side * from.shape.width) / 2 : 0;
  const h = horizontal ? 0 : (side * from.shape.height) / 2;
  const drop = from.bar?.above ? DROP : 0;
  const [ax, ay, bx, by] = [from.x + w, from.y + h - drop, to.x - w, to.y - h - drop];
  const [dx, dy] = [(bx - ax) / 3, (by - ay) / 3];
  return Float64Array.of(ax, ay, ax + dx, ay + dy, bx - dx, by - dy, bx, by);
}
