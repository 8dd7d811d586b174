import { isHorizontal } from "../layout/direction";
import {
  type Bend,
  barredSkips,
  bendLength,
  bendOf,
  bent,
  extentsOf,
  hasNestedBypasses,
} from "../place/bend";
import { type Dock, docksOf } from "../place/dock";
import { type Joint, jointsIn, pairsIn, withJoints, withoutJoints } from "../place/joints";
import { type Apart, laidOut, type Wrap } from "../place/laid_out";
import { layoutsOf } from "../place/layouts";
import { withOutputUnder } from "../place/output_row";
import { liftable, longLines, portalRoom, withPortals } from "../place/portals";
import type { Placement } from "../scene/placement";
import { isOfCards, type Sized } from "../scene/sizes";
import { LEGIBLE, type Room, tallRoom } from "../scene/views";
import type { Measure } from "../text/measure";
import { boundOf } from "./bounds";
import { DENSE, DENSE_ROW, fitsDense, ROW, repairsOf, TIGHT_ROW, wrapsFor } from "./candidates";
import { inRows, type Wrapped } from "./choose";
import { lengths, scaleIn, scoreOf } from "./score";

/** The most tiles that are wrapped in several ways. */
const MOST_TILES = 60;
/** Longer lines, as a share of the room's length, are long. */
const LONG_LINE = 0.45;
/** A picture that is smaller in its most promising wrap is not legible in another one. */
const HOPELESS = 0.75 * LEGIBLE;
/** The most layouts of halves, in several attempts. */
const MOST_BENDING = 3;
/** The most layouts until no line needs to go. */
const MOST_TRIES = 3;
/** A row that fits at this scale is not wrapped: a second row would hold little more than its end. */
const ALMOST = 0.9;

/** Place a picture, as a draft without repairs of its faults if only its size matters. */
export function place(sized: Sized, measure: Measure, room?: Room, isDraft = false): Placement {
  const { card, direction } = sized;
  const areCards = isOfCards(sized);
  /** In one row, which needs no room. */
  const rowIn: LaidRow = (apart) => laidOut(sized, measure, room, { ...apart, wrap: ROW });
  const inHalves = room && !areCards ? bentIn(sized, room, measure) : null;
  if (inHalves) return inHalves;
  const within = (room: Room | undefined) =>
    (areCards ? cardsIn : tilesIn)(sized, measure, { room, isDraft, row: rowIn });
  if (!room?.tallest || card === "full") return within(room);
  const tall = tallRoom(room);
  if (boundOf(sized, room) < LEGIBLE) return within(tall);
  const placed = within(room);
  const scale = scaleIn(room, placed, direction);
  const isDone = scale >= LEGIBLE || (isDraft && (!areCards || scale < HOPELESS));
  if (isDone) return placed;
  const other = within(tall);
  return scaleIn(tall, other, direction) > scaleIn(tall, placed, direction) ? other : placed;
}

type LaidRow = (apart: Apart) => Placement;

/** The room, whether only the size matters, and how to lay out a single row. */
interface PlaceOptions {
  room: Room | undefined;
  isDraft: boolean;
  row: LaidRow;
}

/** Place cards in one row, or in as many as make them largest. */
function cardsIn(
  sized: Sized,
  measure: Measure,
  { room, isDraft, row: rowIn }: PlaceOptions,
): Placement {
  const { graph, plan, shapes, times, card, direction } = sized;
  const docks = docksOf(graph, plan, shapes, times);
  const laid = (wrap?: Wrap, docked: readonly Dock[] = docks) =>
    laidOut(sized, measure, room, { docks: docked, wrap });
  if (!room) return laid();
  const layouts = layoutsOf(graph);
  const isLegible = (placed: Placement) => scaleIn(room, placed, direction) >= LEGIBLE;
  const row = rowIn({ docks });
  // Without wrapping if that is easy to read or has large cards; else the first wrapping that is.
  if (isLegible(row) || layouts.isSpent) return row;
  if (card === "full") return room.derivatives ? row : laid(TIGHT_ROW);
  let best = row;
  if (!room.derivatives && fitsDense(row, room, direction)) best = laid(DENSE_ROW);
  const wraps = wrapsFor(row, sized, room);
  // Docked nodes make rows taller, so they go last.
  const ways: [boolean, Dock[]][] = [[false, docks]];
  if (plan.frames.length > 0) ways.push([true, docks]);
  if (docks.length > 0) ways.push([true, []]);
  for (const [wrapsBoxes, docked] of ways) {
    if (layouts.isSpent || isLegible(best)) break;
    const way = {
      ...{ direction, isSpent: () => layouts.isSpent },
      laid: (wrap: Wrap) => laid({ ...wrap, wrapsBoxes }, docked),
    };
    const { placed } = inRows({ placed: row, wrap: ROW }, wraps, room, way, { isLargest: true });
    const scale = scaleIn(room, placed, direction);
    if (scale > scaleIn(room, best, direction)) best = placed;
    if (isDraft && placed !== row && scale < HOPELESS) break;
  }
  return best;
}

/** The leaves to dock at sums and products between boxes. */
function docksAtSums({ graph, plan, shapes, times }: Sized): Dock[] {
  const isBox = (v: number) => plan.nodes[v].group !== null || plan.nodes[v].strip !== undefined;
  return docksOf(graph, plan, shapes, times).filter(
    ({ leaf, user }) => !isBox(leaf) && !isBox(user) && shapes[user].sign === "round",
  );
}

/** Place tiles in rows as long as the room, or in more rows if only that is readable, with long lines as portals. */
function tilesIn(
  sized: Sized,
  measure: Measure,
  { room, isDraft, row: rowIn }: PlaceOptions,
): Placement {
  const { graph, plan, direction } = sized;
  const docks = docksAtSums(sized);
  let portals: readonly number[] = [];
  const apart = () => ({ docks, lifted: portals, portals: { edges: portals } });
  const laid = (wrap?: Wrap) => laidOut(sized, measure, room, { ...apart(), wrap });
  if (!room || plan.nodes.length > MOST_TILES) return laid();
  const layouts = layoutsOf(graph);
  const scale = (placed: Placement) => scaleIn(room, placed, direction);
  const long = LONG_LINE * lengths(room, direction)[0];
  const way = { direction, laid, isSpent: () => layouts.isSpent };
  let wraps: Wrap[] = [];
  let best = wrapped();
  const isHopeless = isDraft && scale(best.placed) < HOPELESS;
  for (let tries = 0; tries < MOST_TRIES && !layouts.isSpent && !isHopeless; tries++) {
    const found = longLines(best.placed, sized, long, portals);
    if (found.length === portals.length) break;
    portals = found;
    const { wrap } = best;
    const from = wraps.indexOf(wrap);
    best = from < 0 ? wrapped() : inRows({ placed: laid(wrap), wrap }, wraps, room, way, { from });
  }
  const placed = isDraft ? best.placed : repaired(best);
  return withPortals(withOutputUnder(placed, sized), sized, { edges: portals }, measure);

  function wrapped(): Wrapped {
    const row = { placed: rowIn(apart()), wrap: ROW };
    if (!room || scale(row.placed) >= ALMOST) return row;
    wraps = wrapsFor(row.placed, sized, room);
    return inRows(row, wraps, room, way);
  }

  function repaired({ placed, wrap }: Wrapped): Placement {
    if (!room || plan.frames.length === 0) return placed;
    if (scale(placed) < LEGIBLE || wrap === ROW) return placed;
    const row = rowIn(apart());
    let best = { placed, score: scoreOf(placed, sized, room, row) };
    for (const wrap of repairsOf(best.score, wrapsFor(row, sized, room))) {
      if (best.score.isFaultless || layouts.isSpent) break;
      const other = laid(wrap);
      const score = scoreOf(other, sized, room, row);
      if (score.value > best.score.value) best = { placed: other, score };
    }
    return best.placed;
  }
}

/** Where a picture with nested bypasses can be bent, in one row, or null. */
export function bendIn(sized: Sized, room: Room, measure: Measure) {
  const { plan, shapes, direction } = sized;
  // The other way, the turn would be above the halves.
  if (direction === "down" || plan.nodes.length > MOST_TILES) return null;
  if (!hasNestedBypasses(plan)) return null;
  const flat = laidOut(sized, measure, room, { docks: docksAtSums(sized), wrap: ROW });
  const sizes = extentsOf(flat, shapes, isHorizontal(direction));
  const bend = bendOf(flat, plan, sizes);
  return bend && { flat, sizes, bend };
}

/**
 * Place a picture with nested bypasses in two halves; if it is too long else, its joints between them, and then layers
 * beside each other. Null if it has no such bypasses, or is too long.
 */
function bentIn(sized: Sized, room: Room, measure: Measure): Placement | null {
  const { graph, plan, direction } = sized;
  const found = bendIn(sized, room, measure);
  if (!found) return null;
  const { flat, sizes, bend } = found;
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
  const layouts = layoutsOf(graph);
  return layouts.atMost(MOST_BENDING, () => {
    for (const attempt of attempts) {
      const beside = new Set(attempt.joints.map(({ dock }) => dock.leaf));
      const least = { gap: DENSE, beside, ...(isOpen ? {} : { box: Infinity }) };
      const length = bendLength(flat, plan, bend, sizes, least);
      if (length * LEGIBLE > lengths(attempt.room, direction)[0]) continue;
      if (layouts.isSpent) return null;
      const placed = bentAt(bend, sized, measure, attempt);
      if (placed) return placed;
    }
    return null;
  });
}

/** How to bend a picture: what goes between its halves, the room for it, and the least gap along them. */
interface BendOptions {
  joints: readonly Joint[];
  room: Room;
  rankGap?: number;
}

/** Bend a picture there, with fewer bypasses if some would cross nodes; null if it is too long. */
function bentAt(
  given: Bend,
  sized: Sized,
  measure: Measure,
  { joints, room, rankGap }: BendOptions,
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
    const laid = laidOut({ ...sized, plan }, measure, room, of);
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
