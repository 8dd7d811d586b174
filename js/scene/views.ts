import { isHorizontal } from "../layout/direction";
import { SMALLEST } from "../text/measure";
import type { GraphModel } from "../wire";
import { MOST_CARDS } from "./card";
import type { Box } from "./grid";
import type { Scene } from "./scene";

/** A point p of the scene is seen at k * p + (x, y). */
export interface View {
  k: number;
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

/** The room for a picture. */
export interface Room extends Size {
  /** The greatest height of a picture that is illegible at `height`. */
  tallest?: number;
  /** Whether a board's arrows need room for local derivatives. */
  derivatives?: boolean;
}

/** The greatest height of the drawing, px: the part of a model that a window of 900 px can show. */
export const MOST_HEIGHT = 600;
export const MOST_OF_MODEL = 680;
/** The same where a lower picture is illegible. */
export const TALLEST = 860;

/** The room for the first picture of a graph in a drawing of this width. */
export function roomOfWidth(width: number, { nodes }: Pick<GraphModel, "nodes">): Room {
  const isModel = nodes.length > MOST_CARDS && nodes.some(({ namespace }) => namespace);
  return { width, height: isModel ? MOST_OF_MODEL : MOST_HEIGHT, tallest: TALLEST };
}

/** The ratio of widths that makes a room count as another. */
const MUCH = 1.3;

/** Whether a room of this width needs another picture. */
export function isOtherWidth(before: number, width: number): boolean {
  return Math.max(width / before, before / width) >= MUCH;
}

/** The room at its greatest height. */
export function tallRoom(room: Room): Room {
  return { ...room, height: Math.max(room.height, room.tallest ?? 0) };
}

/** The scale at which the smallest letters are 11 px high. */
export const LEGIBLE = 11 / SMALLEST;
/** Small graphs are not blown up. */
export const LARGEST_FIT = 1.2;
/** On a full screen, which may be seen from afar, they fill it. */
export const LARGEST_FULL = 2.5;
/** The largest scale of an entered box. */
const LARGEST_INSIDE = 1.5;
/** Below this scale labels are illegible: a first view then shows the outputs' end. */
export const READABLE = 0.55;
export const FIRST_SCALE = 0.85;
export const MARGIN = 16;

export function fitView(scene: Size, stage: Size, largest = LARGEST_FIT): View {
  const k = Math.min(
    largest,
    (stage.width - 2 * MARGIN) / Math.max(1, scene.width),
    (stage.height - 2 * MARGIN) / Math.max(1, scene.height),
  );
  const safe = Math.max(k, 0.001);
  return {
    k: safe,
    x: (stage.width - safe * scene.width) / 2,
    y: (stage.height - safe * scene.height) / 2,
  };
}

/**
 * Show everything in the middle, with `spare` px free beside it where all letters are legible then. A
 * picture with open boxes, whose letters are small, gets them only at its own size or larger.
 */
export function fitBeside(
  scene: Size & Pick<Scene, "frames">,
  stage: Size,
  spare: number,
  largest = LARGEST_FIT,
): View {
  const { width, height } = stage;
  const fit = fitView(scene, { width: width - Math.max(0, spare), height }, largest);
  return fit.k >= (scene.frames.length > 0 ? 1 : LEGIBLE)
    ? { ...fit, x: (width - fit.k * scene.width) / 2 }
    : fitView(scene, stage, largest);
}

/** Move a scene to the left at the same scale, so that a narrower stage shows all of it; the same view if it does or cannot. */
export function besideView(view: View, scene: Size, { width }: Size): View {
  const free = width - view.k * scene.width;
  return free < 0 || view.x <= free ? view : { ...view, x: free - Math.min(MARGIN, free / 2) };
}

export function isSameView(a: View, b: View): boolean {
  return a.k === b.k && Math.hypot(a.x - b.x, a.y - b.y) < 1;
}

/** Whether a view shows all of the scene. */
export function isWhole({ width, height }: Size, { k, x, y }: View, stage: Size): boolean {
  return x >= 0 && y >= 0 && x + k * width <= stage.width && y + k * height <= stage.height;
}

/**
 * The first view: everything if it is readable or was folded to be, else the end with the outputs; for a static graph,
 * with the inputs.
 */
export function firstView(scene: Scene, stage: Size, spare = 0, largest = LARGEST_FIT): View {
  const fit = fitBeside(scene, stage, spare, largest);
  // A folding is chosen to be readable as a whole, and so is a board.
  if (fit.k >= READABLE || !scene.isStatic) return fit;
  const k = FIRST_SCALE;
  const horizontal = isHorizontal(scene.direction);
  const length = horizontal ? scene.width : scene.height;
  const room = horizontal ? stage.width : stage.height;
  const across = horizontal ? stage.height : stage.width;
  const runsBack = scene.direction === "up" || scene.direction === "left";
  const backwards = runsBack !== Boolean(scene.isStatic);
  const along =
    k * length <= room - 2 * MARGIN
      ? (room - k * length) / 2
      : backwards
        ? room - MARGIN - k * length
        : MARGIN;
  const beside = middleOf(
    scene,
    horizontal,
    (at) => k * at + along >= 0 && k * at + along <= room,
    (across - 2 * MARGIN) / k,
  );
  const offset = across / 2 - k * beside;
  return horizontal ? { k, x: along, y: offset } : { k, x: offset, y: along };
}

/** The middle of a first view across the flow; of the outputs alone if it is too wide. */
function middleOf(
  { nodes, width, height }: Scene,
  horizontal: boolean,
  isSeen: (at: number) => boolean,
  room: number,
): number {
  let [low, high] = [Infinity, -Infinity];
  let root = 0;
  for (const { x, y, shape, root: isRoot } of nodes) {
    const at = horizontal ? y : x;
    const half = (horizontal ? shape.outerHeight : shape.outerWidth) / 2;
    if (!isSeen(horizontal ? x : y)) continue;
    low = Math.min(low, at - half);
    high = Math.max(high, at + half);
    if (isRoot) root = at;
  }
  // A graph that is drawn with others may have nothing there.
  if (low > high) return (horizontal ? height : width) / 2;
  if (high - low <= room) return (low + high) / 2;
  return Math.max(low + room / 2, Math.min(high - room / 2, root));
}

/** Move at the same scale just enough to show the box; the same view if it is visible. */
export function revealView(view: View, box: Box, stage: Size): View {
  const shift = (low: number, high: number, size: number) => {
    const room = Math.min(MARGIN, size / 4);
    if (high - low > size - 2 * room) return size / 2 - (low + high) / 2;
    if (low < room) return room - low;
    return high > size - room ? size - room - high : 0;
  };
  const dx = shift(view.k * box.left + view.x, view.k * box.right + view.x, stage.width);
  const dy = shift(view.k * box.top + view.y, view.k * box.bottom + view.y, stage.height);
  return dx === 0 && dy === 0 ? view : { k: view.k, x: view.x + dx, y: view.y + dy };
}

/** Move at the same scale just enough to show a box; for a larger one its upper left corner, with its title. */
export function inSight(view: View, box: Box, stage: Size): View {
  const shift = (low: number, high: number, size: number) =>
    high - low > size - 2 * MARGIN
      ? MARGIN - low
      : Math.max(0, MARGIN - low) + Math.min(0, size - MARGIN - high);
  const { left, top, right, bottom } = seenBox(view, box);
  const [dx, dy] = [shift(left, right, stage.width), shift(top, bottom, stage.height)];
  return dx === 0 && dy === 0 ? view : { k: view.k, x: view.x + dx, y: view.y + dy };
}

/** Fill the stage with a box while that is readable; else show its upper left corner. */
export function boxView(box: Box, stage: Size): View {
  const across = (stage.width - 2 * MARGIN) / Math.max(1, box.right - box.left);
  const down = (stage.height - 2 * MARGIN) / Math.max(1, box.bottom - box.top);
  const k = Math.max(READABLE, Math.min(LARGEST_INSIDE, across, down));
  const x = (stage.width - k * (box.left + box.right)) / 2;
  const y = (stage.height - k * (box.top + box.bottom)) / 2;
  return inSight({ k, x, y }, box, stage);
}

/** The places of an item in a picture and in the next one, which shall coincide on the stage. */
export interface Hold {
  from: [number, number];
  to: [number, number];
}

/** Move at the same scale so that the item stays on its spot. */
export function heldView({ k, x, y }: View, { from, to }: Hold): View {
  return { k, x: x + k * (from[0] - to[0]), y: y + k * (from[1] - to[1]) };
}

/** Centre a point at a readable scale. */
export function centreView(view: View, point: { x: number; y: number }, stage: Size): View {
  const k = Math.max(view.k, READABLE);
  return { k, x: stage.width / 2 - k * point.x, y: stage.height / 2 - k * point.y };
}

/** The visible part of the scene, with a margin in shares of the stage. */
export function seen(view: View, stage: Size, margin = 0.5): Box {
  const dx = margin * stage.width;
  const dy = margin * stage.height;
  return {
    left: (-view.x - dx) / view.k,
    top: (-view.y - dy) / view.k,
    right: (stage.width - view.x + dx) / view.k,
    bottom: (stage.height - view.y + dy) / view.k,
  };
}

/** Where a box of the scene is seen, px of the stage. */
export function seenBox({ k, x, y }: View, { left, top, right, bottom }: Box): Box {
  return { left: k * left + x, top: k * top + y, right: k * right + x, bottom: k * bottom + y };
}

export function contains(outer: Box, inner: Box): boolean {
  return (
    outer.left <= inner.left &&
    outer.top <= inner.top &&
    outer.right >= inner.right &&
    outer.bottom >= inner.bottom
  );
}

/** Keep some of the scene in view. */
export function keepInView(view: View, scene: Size, stage: Size): View {
  const keep = (offset: number, scene: number, stage: number) => {
    const least = Math.min(80, stage / 3);
    return Math.max(least - view.k * scene, Math.min(stage - least, offset));
  };
  return {
    k: view.k,
    x: keep(view.x, scene.width, stage.width),
    y: keep(view.y, scene.height, stage.height),
  };
}
