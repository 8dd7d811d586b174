import { type Direction, isHorizontal } from "../layout/direction";
import { pickHanging } from "../layout/graph";
import { layout } from "../layout/index";
import type { ContentCache, Layout, LayoutOptions } from "../layout/types";
import type { Measure } from "../text/measure";
import { type Bend, barredSkips, bendLength, bendOf, bent, extentsOf } from "./bend";
import { inWalkOrder } from "./depth_first";
import { type Dock, docksOf, hangingOf, type Placement, withDocked, withoutDocked } from "./dock";
import { HEADER, titleWidth } from "./frame";
import { type Joint, jointsIn, pairsIn, withJoints, withoutJoints } from "./joints";
import type { NodeShape } from "./node_shape";
import { outputAlone, withOutputUnder } from "./output_row";
import type { Plan } from "./plan";
import { liftable, longLines, type Portals, portalRoom, withPortals } from "./portals";
import type { Sized } from "./sizes";
import { fitView, LEGIBLE, type Room, type Size, tallRoom } from "./views";

/** Between cards, px: with room for a number on an arrow. */
const CARD_GAPS = {
  full: { node: 36, rank: 64, dock: 48 },
  near: { node: 16, rank: 20, dock: 24 },
};

/** Between two columns of tiles, px. */
const TILE_GAP = 18;

/** Between columns with a local derivative on each arrow, px. */
const DERIVATIVE_GAP = 92;

/** The growth of a gap between columns of cards per crossing, px: bundles untangle. */
const CROSS_GAP = 8;
/** Between parallel lines on a board, px. */
const LINE_GAP = 12;

/** From a frame's border to its content, px. */
const PADDING = 10;
const BOARD_PADDING = 8;

/** Between columns of small cards that would otherwise be wrapped, px. */
const DENSE = 10;
/** The factors on the room's proportions that wrapping tries, and the gain that it needs. */
const WRAPS = [1, 1.7, 2.5, 3.5, 5, 7];
const WORTH = 1.05;
/** Shorter pictures, as a share of the room, are not wrapped. */
const WRAPPED = 0.8;
/** The most tiles that are wrapped in several ways. */
const MOST_TILES = 60;
/** Longer lines, as a share of the room's length, are long. */
const LONG_LINE = 0.45;
/** A line with more bends changes rows more than twice. */
const MOST_BENDS = 8;
/** The most layouts until no line needs to go. */
const MOST_TRIES = 3;
/** A row that fits at this scale is not wrapped: a second row would hold little more than its end. */
const ALMOST = 0.9;
/** The breadth of a box broken into two rows, as a multiple of its breadth in one. */
const TWO_ROWS = 1.5;
/** The scale, as a share, at which an output beside the rest is better than one in a row of its own. */
const BESIDE = 0.9;
/** Below this scale, no wrapping helps. */
const HOPELESS = 0.4;

/** Everything in one row. */
const ROW = { long: Number.POSITIVE_INFINITY, wrapsBoxes: false };

interface PlaceOptions {
  room?: Room | undefined;
  cache?: ContentCache | undefined;
}

/** Lay out a picture: the place of everything, in the layout's coordinates. */
export function place(sized: Sized, measure: Measure, options: PlaceOptions): Placement {
  const { room } = options;
  const isOfCards = sized.card && !sized.plan.nodes.some(({ group }) => group);
  const inHalves = room && !isOfCards ? bentIn(sized, room, measure, options) : null;
  if (inHalves) return inHalves;
  const within = (room: Room | undefined) =>
    (isOfCards ? cardsIn : tilesIn)(sized, measure, { ...options, room });
  const placed = within(room);
  const isLegible =
    !room?.tallest || sized.card === "full" || scaleIn(room, placed, sized.direction) >= LEGIBLE;
  return isLegible ? placed : within(tallRoom(room));
}

/** The bends of each line. */
function bendsOf({ route }: Placement, { edges }: Plan): number[] {
  return edges.map((_, e) => Math.max(0, route(e).length - 2));
}

/** The scale at which a room shows a whole picture. */
function scaleIn(room: Size, { width, height }: Placement, direction: Direction): number {
  return fitView(
    isHorizontal(direction) ? { width: height, height: width } : { width, height },
    room,
  ).k;
}

/** Place cards in one row, or in as many as make them largest. */
function cardsIn(sized: Sized, measure: Measure, options: PlaceOptions): Placement {
  const { graph, plan, shapes, times, card } = sized;
  const docks = docksOf(graph, plan, shapes, times);
  const { room } = options;
  if (!room) return laidOut(sized, measure, options, { docks });
  const scale = (placed: Placement) => scaleIn(room, placed, sized.direction);
  const row = { long: Infinity, wrapsBoxes: false };
  let best = laidOut(sized, measure, options, { docks, wrap: row });
  // Without wrapping if that is easy to read or has large cards; else the largest wrapping.
  if (card === "full" || scale(best) >= LEGIBLE) return best;
  if (!room.derivatives) {
    best = laidOut(sized, measure, options, { docks, wrap: { ...row, rankGap: DENSE } });
    if (scale(best) >= LEGIBLE) return best;
  }
  const [long, high] = lengths(room, sized.direction);
  const attempt = (docked: readonly Dock[], wrapsBoxes: boolean) => {
    for (const times of WRAPS) {
      const wrap = { long: WRAPPED * long, aspect: (times * high) / long, wrapsBoxes };
      const wrapped = laidOut(sized, measure, options, { docks: docked, wrap });
      if (scale(wrapped) > WORTH * scale(best)) best = wrapped;
    }
  };
  attempt(docks, false);
  if (scale(best) < LEGIBLE && plan.frames.length > 0) attempt(docks, true);
  // Docked nodes make rows taller, so they go last.
  if (scale(best) < LEGIBLE && docks.length > 0) attempt([], true);
  return best;
}

/** Place tiles in rows as long as the room, or in more rows if only that is readable. */
function tilesIn(sized: Sized, measure: Measure, options: PlaceOptions): Placement {
  const { room } = options;
  const isSmall = room !== undefined && sized.plan.nodes.length <= MOST_TILES;
  let portals: readonly number[] = [];
  let best = inRows(sized, measure, options);
  if (!isSmall) return best;
  const long = LONG_LINE * lengths(room, sized.direction)[0];
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const found = longLines(best, sized, long, portals);
    if (found.length === portals.length) break;
    portals = found;
    best = inRows(sized, measure, options, portals);
  }
  return withPortals(withOutputUnder(best, sized), sized, { edges: portals }, measure);
}

/** The leaves to dock at sums and products between boxes. */
function docksAtSums({ graph, plan, shapes, times }: Sized): Dock[] {
  const isBox = (v: number) => plan.nodes[v].group !== null || plan.nodes[v].strip !== undefined;
  return docksOf(graph, plan, shapes, times).filter(
    ({ leaf, user }) => !isBox(leaf) && !isBox(user) && shapes[user].sign === "round",
  );
}

/** Place tiles in rows, without the lines of portals. */
function inRows(
  sized: Sized,
  measure: Measure,
  options: PlaceOptions,
  portals: readonly number[] = [],
): Placement {
  const { room } = options;
  const { plan } = sized;
  const docks = docksAtSums(sized);
  const laid = (wrap?: Wrap) =>
    laidOut(sized, measure, options, { docks, wrap, lifted: portals, portals: { edges: portals } });
  let best = laid();
  if (!room || plan.nodes.length > MOST_TILES) return best;
  const scale = (placed: Placement) => scaleIn(room, placed, sized.direction);
  const row = laid(ROW);
  if (scale(row) >= ALMOST) return row;
  const bends = (placed: Placement) => bendsOf(placed, plan).reduce((sum, count) => sum + count, 0);
  const [long, high] = lengths(room, sized.direction);
  for (const times of WRAPS) {
    if (scale(best) >= LEGIBLE || scale(best) < HOPELESS) break;
    const placed = laid({ long: WRAPPED * long, aspect: (times * high) / long });
    if (scale(placed) > WORTH * scale(best)) best = placed;
  }
  if (plan.frames.length === 0) return best;
  const whole = withWholeRows(best);
  return brokenBetween(whole) ?? (whole === best ? withOutputBeside(best) : whole);

  /** With breaks between boxes instead of in one of them, if that is readable and has fewer bends; or null. */
  function brokenBetween(wrapped: Placement): Placement | null {
    const around = aroundBoxes(plan);
    const isBroken = plan.frames.some(
      ({ parent }, f) =>
        around[parent] && !around[f] && wrapped.boxes.width[f] > TWO_ROWS * row.boxes.width[f],
    );
    if (!isBroken || scale(wrapped) < LEGIBLE) return null;
    const dense = { long: WRAPPED * long, wrapsBoxes: false, rankGap: DENSE };
    for (const wrapsWhole of [false, true]) {
      const aspect = ((wrapsWhole ? WRAPS[1] : 1) * high) / long;
      const placed = laid({ ...dense, between: true, wrapsWhole, aspect });
      if (scale(placed) >= LEGIBLE && bends(placed) < bends(wrapped)) return placed;
    }
    return null;
  }

  /** With shorter rows in boxes, not more bends and an output that is not alone in a row, if that is hardly smaller. */
  function withOutputBeside(wrapped: Placement): Placement {
    if (scale(wrapped) < BESIDE * LEGIBLE || outputAlone(wrapped, sized) === null) return wrapped;
    let found: Placement | null = null;
    for (const times of WRAPS) {
      const wrap = { long: WRAPPED * long, aspect: (times * high) / long, wrapsWhole: false };
      const placed = laid(wrap);
      if (bends(placed) <= bends(wrapped) && scale(placed) > (found ? scale(found) : 0))
        found = placed;
    }
    const least = Math.max(BESIDE * scale(wrapped), LEGIBLE);
    return found && scale(found) >= least ? found : wrapped;
  }

  /** With boxes around whole rows, if that is readable and has fewer bends than a picture whose lines bend often. */
  function withWholeRows(wrapped: Placement): Placement {
    const most = bends(wrapped);
    if (most <= plan.edges.length || scale(wrapped) < LEGIBLE) return wrapped;
    const isDense = Math.max(...bendsOf(wrapped, plan)) > MOST_BENDS;
    for (const times of WRAPS)
      for (const gap of [{}, ...(isDense ? [{ rankGap: DENSE }] : [])]) {
        const wrap = { long: WRAPPED * long, aspect: (times * high) / long, ...gap };
        const placed = laid({ ...wrap, wrapsBoxes: false });
        if (scale(placed) >= LEGIBLE && bends(placed) < most) return placed;
      }
    return wrapped;
  }
}

/**
 * Place a picture with nested bypasses in two halves; if it is too long else, its joints between them, and then layers
 * beside each other. Null if it has no such bypasses, or is too long.
 */
function bentIn(
  sized: Sized,
  room: Room,
  measure: Measure,
  options: PlaceOptions,
): Placement | null {
  const { plan, shapes, direction } = sized;
  // The other way, the turn would be above the halves.
  if (direction === "down" || plan.nodes.length > MOST_TILES) return null;
  const flat = laidOut(sized, measure, options, { wrap: ROW });
  const sizes = extentsOf(flat, shapes, isHorizontal(direction));
  const bend = bendOf(flat, plan, sizes);
  if (!bend) return null;
  const joints = jointsIn(plan, bend);
  const paired = [...joints, ...pairsIn(plan, bend, joints)];
  const tall = tallRoom(room);
  const attempts: BendOptions[] = [
    { joints: [], room },
    { joints, room },
    { joints: [], room: tall },
    { joints, room: tall },
    { joints, room: tall, rankGap: DENSE },
    { joints: paired, room: tall },
    { joints: paired, room: tall, rankGap: DENSE },
  ];
  const isOpen = plan.frames.length > 0;
  for (const attempt of attempts) {
    const beside = new Set(attempt.joints.map(({ dock }) => dock.leaf));
    const least = { gap: DENSE, beside, ...(isOpen ? {} : { box: Infinity }) };
    const length = bendLength(flat, plan, bend, sizes, least);
    if (length * LEGIBLE > lengths(attempt.room, direction)[0]) continue;
    const placed = bentAt(bend, sized, measure, { ...options, ...attempt });
    if (placed) return placed;
  }
  return null;
}

/** How to bend a picture: what goes between its halves, the room for it, and the least gap along them. */
interface BendOptions extends PlaceOptions {
  joints: readonly Joint[];
  room: Room;
  rankGap?: number;
}

/** Bend a picture there, with fewer bypasses if some would cross nodes; null if it is too long. */
function bentAt(
  given: Bend,
  sized: Sized,
  measure: Measure,
  { joints, room, rankGap, cache }: BendOptions,
): Placement | null {
  const { shapes, direction } = sized;
  const wrap = { ...ROW, ...(rankGap && { rankGap }) };
  const horizontal = isHorizontal(direction);
  const plan = withoutJoints(sized.plan, joints);
  const docks = joints.map(({ dock }) => dock);
  let bend: Bend | null = given;
  for (let tries = 0; bend && tries < MOST_TRIES; tries++) {
    const edges = portalsOf(sized, bend);
    if (!edges) return null;
    // Outside the channel between the halves.
    const portals = { edges, isBefore: bend.isLast.map((last) => 1 - last) };
    const lifted = [...bend.skips, ...edges];
    const of = { docks, wrap, lifted, portals };
    const laid = laidOut({ ...sized, plan }, measure, { room, cache }, of);
    const sizes = extentsOf(laid, shapes, horizontal, portalRoom(sized, portals, measure));
    const placed = bent(laid, plan, bend, sizes);
    if (!placed) return null;
    const barred: Set<number> = new Set(barredSkips(placed, plan, bend, sizes));
    if (barred.size === 0) {
      // Opening a box changes nothing else, so its own length does not count.
      const shortest = plan.frames.length > 0 ? bendLength(laid, plan, bend, sizes) : Infinity;
      const isShort =
        scaleIn(room, placed, direction) >= LEGIBLE ||
        shortest * LEGIBLE <= lengths(room, direction)[0];
      const whole = withJoints(placed, sized.plan, joints, shapes, horizontal);
      return isShort ? withPortals(whole, sized, portals, measure) : null;
    }
    const skips: number[] = bend.skips.filter((e) => !barred.has(e));
    bend = skips.length < 2 ? null : { ...bend, skips, others: [...bend.others, ...barred] };
  }
  return null;
}

/** The portals of a bent picture: lines across that are not bypasses, and more lines of their producers. */
function portalsOf(sized: Sized, { skips, others }: Bend): number[] | null {
  const { edges } = sized.plan;
  const isSkip = new Set(skips);
  const producers = new Set(others.map((e) => edges[e].target));
  const wanted = [...edges.keys()].filter((e) => producers.has(edges[e].target) && !isSkip.has(e));
  const portals = liftable(sized, wanted);
  return others.every((e) => portals.includes(e)) ? portals : null;
}

/** A room's length along the flow and across it. */
function lengths({ width, height }: Size, direction: Direction): [number, number] {
  return isHorizontal(direction) ? [width, height] : [height, width];
}

/** How a picture is wrapped. */
interface Wrap extends Partial<LayoutOptions> {
  /** Whether only boxes around several boxes are wrapped, between these. */
  between?: boolean;
}

/** The parts of a picture that are not laid out like the others. */
interface Apart {
  docks?: readonly Dock[];
  wrap?: Wrap | undefined;
  /** Edges without a line in the layout. */
  lifted?: readonly number[];
  portals?: Portals;
}

function laidOut(
  sized: Sized,
  measure: Measure,
  { room, cache }: PlaceOptions,
  { docks = [], wrap: { between, ...wrap } = {}, lifted = [], portals = { edges: [] } }: Apart,
): Placement {
  const { graph, plan, shapes, times, direction, card } = sized;
  const horizontal = isHorizontal(direction);
  const { frames } = plan;
  const isWhole = plan.nodes.every(({ group }) => group === null);
  const gap = CARD_GAPS[card ?? "near"].dock;
  const stay = inWalkOrder(withoutDocked(plan, docks, new Set(lifted)), graph, plan);
  const nodes = stay.kept.map((v) => plan.nodes[v]);
  const edges = stay.lines.map((e) => plan.edges[e]);
  const around = hangingOf(docks, shapes, horizontal, gap);
  for (const [side, sizes] of Object.entries(portalRoom(sized, portals, measure)))
    sizes.forEach((size: number, v: number) => {
      const all = around[side as keyof typeof around];
      all[v] = Math.max(all[v], size);
    });
  const hanging = pickHanging(around, stay.kept);
  const input = {
    n: nodes.length,
    source: edges.map(({ source }) => stay.at[source]),
    target: edges.map(({ target }) => stay.at[target]),
    width: stay.kept.map((v) => sizeOf(shapes[v], !horizontal)),
    height: stay.kept.map((v) => sizeOf(shapes[v], horizontal)),
    shared: Uint8Array.from(stay.kept, (v) => (times[v] > 1 ? 1 : 0)),
    ...(docks.length + portals.edges.length > 0 && { hanging }),
  };
  const widest = edges.reduce(
    (most, { argument }) => Math.max(most, argument === null ? 0 : measure(argument, "edge")),
    0,
  );
  const gaps = {
    nodeGap: card ? CARD_GAPS[card].node : horizontal ? 18 : 26,
    rankGap: card
      ? room?.derivatives
        ? DERIVATIVE_GAP
        : isWhole
          ? CARD_GAPS[card].rank
          : TILE_GAP
      : horizontal
        ? Math.max(52, Math.min(96, widest + 34))
        : 56,
    ...(card && isWhole && { crossGap: CROSS_GAP, edgeGap: LINE_GAP }),
    ...(room && wrapIn(room, direction)),
    ...wrap,
  };
  const whole = (placed: Layout) =>
    withDocked(placed, plan, stay, { docks, shapes, horizontal, gap });
  // Nothing opens in a picture without boxes, so it may take all the effort.
  if (frames.length === 0 && isWhole) return whole(layout(input, gaps));
  const boxes = {
    of: nodes.map((node) => node.frame),
    parent: frames.map((frame) => frame.parent),
    titleWidth: frames.map(({ path }) => titleWidth(graph, path, measure)),
    ...(between
      ? { isOuter: aroundBoxes(plan) }
      : !isWhole && wrap.wrapsWhole !== false && { isOuter: outerFrames(frames, nodes) }),
  };
  // In a turned layout the room for the title is at its left, or below.
  const title = HEADER + 4;
  const padding = card && isWhole ? BOARD_PADDING : PADDING;
  const border = horizontal
    ? { header: padding, padding, side: title - padding }
    : { header: title, padding: direction === "down" ? padding : title };
  return whole(layout({ ...input, boxes }, { ...gaps, ...border, ...(cache && { cache }) }));
}

/** Per frame, whether it is around most of the nodes and several frames beside each other. */
function outerFrames(frames: Plan["frames"], nodes: Plan["nodes"]): boolean[] {
  const held = frames.map(() => 0);
  for (const { frame } of nodes) for (let f = frame; f >= 0; f = frames[f].parent) held[f]++;
  const inside = frames.map(() => 0);
  const isOuter = frames.map(() => false);
  const hasOuter = frames.map(() => false);
  // Parents come first.
  for (let f = frames.length - 1; f >= 0; f--) {
    const { parent } = frames[f];
    isOuter[f] = 2 * held[f] > nodes.length && (inside[f] > 1 || hasOuter[f]);
    if (parent < 0) continue;
    inside[parent]++;
    if (isOuter[f]) hasOuter[parent] = true;
  }
  return isOuter;
}

/** Per frame, whether several boxes are directly in it. */
function aroundBoxes({ frames, nodes }: Plan): boolean[] {
  const inside = frames.map(() => 0);
  for (const { parent } of frames) if (parent >= 0) inside[parent]++;
  for (const { frame, strip } of nodes) if (strip && frame >= 0) inside[frame]++;
  return inside.map((count) => count > 1);
}

/** A node's width or height with its room, px. */
function sizeOf({ outerWidth, outerHeight }: NodeShape, isWidth: boolean): number {
  return isWidth ? outerWidth : outerHeight;
}

/** The wrapping: in rows from top to bottom, or columns from left to right, with the data. */
function wrapIn({ width, height }: Size, direction: Direction) {
  const horizontal = isHorizontal(direction);
  return {
    aspect: horizontal ? height / width : width / height,
    long: horizontal ? width : height,
    reversed: direction === "left" || direction === "up",
  };
}
