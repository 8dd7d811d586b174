import { type Direction, isHorizontal } from "../layout/direction";
import { pickHanging } from "../layout/hanging";
import { layout } from "../layout/index";
import type { ContentCache, Layout, LayoutOptions } from "../layout/types";
import type { Measure } from "../text/measure";
import { type Dock, docksOf, hangingOf, type Placement, withDocked, withoutDocked } from "./dock";
import { HEADER, titleWidth } from "./frame";
import type { NodeShape } from "./node_shape";
import type { Sized } from "./sizes";
import { fitView, LEGIBLE, type Room, type Size } from "./views";

/** Between cards, px: there is room for a number on an arrow. */
const CARD_GAPS = {
  full: { node: 36, rank: 64, dock: 48 },
  near: { node: 16, rank: 20, dock: 24 },
};

/** Between two columns of tiles, px. */
const TILE_GAP = 18;

/** Between two columns where a local derivative is written on each arrow, px. */
const DERIVATIVE_GAP = 92;

/** So much wider is the gap between two columns of cards for each crossing in it, px: bundles untangle. */
const CROSS_GAP = 8;
/** Between lines that run beside each other on a board, px. */
const LINE_GAP = 10;

/** Between the border of a frame and what lies in it, px. */
const PADDING = 10;
const BOARD_PADDING = 8;

/** Between columns of small cards that would else be wrapped, px. */
const DENSE = 12;
/** The scale at which a board can still be read well. */
const WELL_READ = 0.8;
/** How many times the room's own proportions a board is wrapped for, and how much larger it must get by that. */
const WRAPS = [1, 2.5, 5];
const TILE_WRAPS = [1, 1.7, 2.5, 5];
const WORTH = 1.05;
/** What is no longer than this share of the room is not wrapped. */
const WRAPPED = 0.8;
/** Below this its boxes are wrapped as well, and below that nothing docks. */
const LEAST_WHOLE = 0.75;
const LEAST_READ = 0.6;
/** So many tiles are wrapped in several ways. */
const MOST_TILES = 60;
/** No wrapping makes what is smaller than this legible. */
const HOPELESS = 0.4;

interface PlaceOptions {
  room?: Room | undefined;
  cache?: ContentCache | undefined;
}

/** Lay a picture out: the place of everything, in the layout's coordinates. */
export function place(sized: Sized, measure: Measure, options: PlaceOptions): Placement {
  const { graph, plan, shapes, times, card } = sized;
  if (!card || plan.nodes.some(({ group }) => group)) return tilesIn(sized, measure, options);
  const docks = docksOf(graph, plan, shapes, times);
  const { room } = options;
  if (!room) return laidOut(sized, docks, measure, options);
  const horizontal = isHorizontal(sized.direction);
  const scale = ({ width, height }: Placement) =>
    fitView(horizontal ? { width: height, height: width } : { width, height }, room).k;
  let best = laidOut(sized, docks, measure, options, { long: Infinity, wrapsBoxes: false });
  // In one line where that can be read well, or where it is of large cards; else wrapped as it is largest.
  if (card === "full" || scale(best) >= WELL_READ) return best;
  if (scale(best) < LEAST_WHOLE && !room.derivatives) {
    const dense = { long: Infinity, wrapsBoxes: false, rankGap: DENSE };
    best = laidOut(sized, docks, measure, options, dense);
    if (scale(best) >= LEAST_WHOLE) return best;
  }
  const [long, high] = horizontal ? [room.width, room.height] : [room.height, room.width];
  const attempt = (docked: readonly Dock[], wrapsBoxes: boolean) => {
    for (const times of WRAPS) {
      const wrap = { long: WRAPPED * long, aspect: (times * high) / long, wrapsBoxes };
      const wrapped = laidOut(sized, docked, measure, options, wrap);
      if (scale(wrapped) > WORTH * scale(best)) best = wrapped;
    }
  };
  attempt(docks, false);
  if (scale(best) < LEAST_WHOLE && plan.frames.length > 0) attempt(docks, true);
  // What docks makes a row higher: the last thing to do without.
  if (scale(best) < LEAST_READ && docks.length > 0) attempt([], true);
  return best;
}

/** Where tiles go: in rows as long as the room, or in more of them where that is larger and could not be read else. */
function tilesIn(sized: Sized, measure: Measure, options: PlaceOptions): Placement {
  const { room } = options;
  const { plan, direction } = sized;
  const horizontal = isHorizontal(direction);
  const best = { placed: laidOut(sized, [], measure, options), scale: 0 };
  if (!room || plan.nodes.length > MOST_TILES) return best.placed;
  const scale = ({ width, height }: Placement) =>
    fitView(horizontal ? { width: height, height: width } : { width, height }, room).k;
  best.scale = scale(best.placed);
  const [long, high] = horizontal ? [room.width, room.height] : [room.height, room.width];
  for (const times of TILE_WRAPS) {
    if (best.scale >= LEGIBLE || best.scale < HOPELESS) break;
    const wrap = { long: WRAPPED * long, aspect: (times * high) / long };
    const placed = laidOut(sized, [], measure, options, wrap);
    if (scale(placed) > WORTH * best.scale) {
      best.placed = placed;
      best.scale = scale(placed);
    }
  }
  return best.placed;
}

function laidOut(
  { graph, plan, shapes, times, direction, card }: Sized,
  docks: readonly Dock[],
  measure: Measure,
  { room, cache }: PlaceOptions,
  wrap: Partial<LayoutOptions> = {},
): Placement {
  const horizontal = isHorizontal(direction);
  const { frames } = plan;
  const isWhole = plan.nodes.every(({ group }) => group === null);
  const dockGap = card ? CARD_GAPS[card].dock : 0;
  const stay = withoutDocked(plan, docks);
  const nodes = stay.kept.map((v) => plan.nodes[v]);
  const edges = stay.lines.map((e) => plan.edges[e]);
  const hanging = pickHanging(hangingOf(docks, shapes, horizontal, dockGap), stay.kept);
  const input = {
    n: nodes.length,
    source: edges.map(({ source }) => stay.at[source]),
    target: edges.map(({ target }) => stay.at[target]),
    width: stay.kept.map((v) => sizeOf(shapes[v], !horizontal)),
    height: stay.kept.map((v) => sizeOf(shapes[v], horizontal)),
    shared: Uint8Array.from(stay.kept, (v) => (times[v] > 1 ? 1 : 0)),
    ...(docks.length > 0 && { hanging }),
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
        : 50,
    ...(card && isWhole && { crossGap: CROSS_GAP, edgeGap: LINE_GAP }),
    ...(room && wrapIn(room, direction)),
    ...wrap,
  };
  const whole = (placed: Layout) =>
    withDocked(placed, plan, stay, docks, shapes, horizontal, dockGap);
  // A picture without boxes may take all the effort there is: nothing will open in it.
  if (frames.length === 0 && isWhole) return whole(layout(input, gaps));
  const boxes = {
    of: nodes.map((node) => node.frame),
    parent: frames.map((frame) => frame.parent),
    titleWidth: frames.map(({ path }) => titleWidth(graph, path, measure)),
  };
  // Where the layout is turned, its top is not the drawing's: the room for the title is at its left then, or below.
  const title = HEADER + 4;
  const padding = card && isWhole ? BOARD_PADDING : PADDING;
  const border = horizontal
    ? { header: padding, padding, side: title - padding }
    : { header: title, padding: direction === "down" ? padding : title };
  return whole(layout({ ...input, boxes }, { ...gaps, ...border, ...(cache && { cache }) }));
}

/** The room that a node takes, px: its width or its height. */
function sizeOf({ outerWidth, outerHeight }: NodeShape, isWidth: boolean): number {
  return isWidth ? outerWidth : outerHeight;
}

/** How a picture is wrapped: in rows from top to bottom, or columns from left to right, as the data flows. */
function wrapIn({ width, height }: Size, direction: Direction) {
  const horizontal = isHorizontal(direction);
  return {
    aspect: horizontal ? height / width : width / height,
    long: horizontal ? width : height,
    reversed: direction === "left" || direction === "up",
  };
}
