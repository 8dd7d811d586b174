import { type Direction, isHorizontal } from "../layout/direction";
import { pickHanging } from "../layout/graph";
import type { Layout, LayoutOptions } from "../layout/types";
import { HEADER, titleWidth } from "../scene/frame";
import type { NodeShape } from "../scene/node_shape";
import type { Placement } from "../scene/placement";
import type { Plan } from "../scene/plan";
import type { Sized } from "../scene/sizes";
import type { Room, Size } from "../scene/views";
import type { Measure } from "../text/measure";
import { inWalkOrder } from "./depth_first";
import { type Dock, hangingOf, withDocked, withoutDocked } from "./dock";
import { layoutsOf } from "./layouts";
import { type Portals, portalRoom } from "./portals";

/** Between cards, px: with room for a number on an arrow. */
export const CARD_GAPS = {
  full: { node: 36, rank: 56, dock: 28 },
  near: { node: 16, rank: 8, dock: 14 },
};

/** Between two columns of tiles, px. */
const TILE_GAP = 18;

/** From a sum between boxes to its docked leaf, px. */
const TILE_DOCK = 24;

/** Between columns with a local derivative on each arrow, px. */
const DERIVATIVE_GAP = 92;

/** The growth of a gap between columns of cards per crossing, px: bundles untangle. */
const CROSS_GAP = 8;
/** Between parallel lines on a board, px. */
const LINE_GAP = 12;

/** From a frame's border to its content, px. */
const PADDING = 10;
const BOARD_PADDING = 8;

/** How a picture is wrapped. */
export interface Wrap extends Partial<LayoutOptions> {
  /** Whether only boxes around several boxes are wrapped, between these. */
  between?: boolean;
}

/** The parts of a picture that are not laid out like the others. */
export interface Apart {
  docks?: readonly Dock[];
  wrap?: Wrap | undefined;
  /** Edges without a line in the layout. */
  lifted?: readonly number[];
  portals?: Portals;
}

/** Lay out a picture: the place of everything, in the layout's coordinates. */
export function laidOut(
  sized: Sized,
  measure: Measure,
  room: Room | undefined,
  { docks = [], wrap: { between, ...wrap } = {}, lifted = [], portals = { edges: [] } }: Apart,
): Placement {
  const { graph, plan, shapes, times, direction, card } = sized;
  const horizontal = isHorizontal(direction);
  const { frames } = plan;
  const isWhole = plan.nodes.every(({ group }) => group === null);
  const gap = card && isWhole ? CARD_GAPS[card].dock : TILE_DOCK;
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
  if (frames.length === 0 && isWhole) return whole(layoutsOf(graph).of(input, gaps));
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
  return whole(layoutsOf(graph).of({ ...input, boxes }, { ...gaps, ...border }));
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
export function aroundBoxes({ frames, nodes }: Plan): boolean[] {
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
