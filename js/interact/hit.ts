import { leastBy } from "../maps";
import { headBox } from "../paint/frame_layer";
import { titleScale } from "../paint/level_of_detail";
import { isJump, pointAt } from "../scene/curve";
import { type SceneFrame, TITLE_LEFT } from "../scene/frame";
import type { Box } from "../scene/grid";
import type { Scene, SceneEdge, SceneNode } from "../scene/scene";
import { indexOf } from "../scene/scene_index";

/** The target at a place in the drawing. */
export interface Hit {
  /** The drawn node. */
  node: SceneNode | null;
  /** Path of the open group whose head this is. */
  frame: string | null;
  /** The edge whose plumbing sign this is. */
  folded: SceneEdge | null;
  /** Whether it is a sign, which takes one click. */
  isSign: boolean;
}

/** The size of a closed box' sign from its corner, px. */
const SIGN = 9;
/** The distance within which a small target counts as hit, px of the stage. */
const SLACK = 4;

/** The target at a point of the scene at this scale: by its element or, for heads on a canvas, by its place. */
export function hitAt(
  scene: Scene,
  target: Element,
  [x, y]: readonly [number, number],
  scale: number,
  heads: readonly SceneFrame[] | null,
): Hit {
  const frame = target
    .closest<SVGGElement>(".gw-frame-head")
    ?.closest<SVGGElement>(".gw-group-frame");
  const sign = target.closest(".gw-edge-folded")?.closest<SVGGElement>(".gw-edge");
  const group = target.closest<SVGGElement>(".gw-node");
  const isSign = target.closest(".gw-frame-sign, .gw-open-sign") !== null;
  if (frame || sign || group || !heads) {
    return {
      node: group ? scene.nodes[Number(group.dataset.index)] : null,
      frame: frame?.dataset.path ?? null,
      folded: sign ? scene.edges[Number(sign.dataset.index)] : null,
      isSign,
    };
  }
  return paintedAt(scene, heads, x, y, scale);
}

/** The target of a point on a canvas. */
export function paintedAt(
  scene: Scene,
  heads: readonly SceneFrame[],
  x: number,
  y: number,
  scale: number,
): Hit {
  const isWithin = ({ left, top, right, bottom }: Box) =>
    x >= left && x <= right && y >= top && y <= bottom;
  const frame = heads.filter((head) => isWithin(headBox(head, scale))).at(-1);
  if (frame) {
    const room = TITLE_LEFT * titleScale(scale);
    const isSign = x < frame.left + room && y < frame.top + room;
    return { node: null, frame: frame.path, folded: null, isSign };
  }
  const index = indexOf(scene);
  const at = index.nodeAt(x, y, SLACK / scale);
  const node = at === null ? null : scene.nodes[at];
  const around = { left: x - SIGN, top: y - SIGN, right: x + SIGN, bottom: y + SIGN };
  const folded = index
    .edgesIn(around)
    .find((e) =>
      scene.edges[e].merged?.signs.some(
        (sign) =>
          sign.kind === "folded" &&
          Math.abs(sign.x - x) <= sign.width / 2 &&
          Math.abs(sign.y - y) <= sign.height / 2,
      ),
    );
  const isSign =
    node?.group !== undefined &&
    Math.abs(x - node.x + node.shape.width / 2 - 2) < SIGN &&
    Math.abs(y - node.y + node.shape.height / 2 - 2) < SIGN;
  return {
    node,
    frame: null,
    folded: folded === undefined || node ? null : scene.edges[folded],
    isSign,
  };
}

/** The distance within which a pointer is on a line, px of the stage. */
const NEAR = 7;
const PIECES = 12; // straight ones, per segment of a curve

/** The line at a point of the scene, seen at this scale; null for none. */
export function edgeAt(scene: Scene, x: number, y: number, scale: number): SceneEdge | null {
  const reach = NEAR / scale;
  const around = { left: x - reach, top: y - reach, right: x + reach, bottom: y + reach };
  const near = indexOf(scene).edgesIn(around);
  const best = leastBy(near, (index) => distance(scene.edges[index].curve, x, y), reach);
  return best === null ? null : scene.edges[best];
}

function distance(curve: ArrayLike<number>, x: number, y: number): number {
  const pieces = PIECES * Math.max(1, (curve.length - 2) / 6);
  let least = Number.POSITIVE_INFINITY;
  let [ax, ay] = pointAt(curve, 0);
  for (let i = 1; i <= pieces; i++) {
    const [bx, by] = pointAt(curve, i / pieces);
    if (isJump(curve, Math.min(Math.floor((i - 0.5) / PIECES), (curve.length - 2) / 6 - 1))) {
      [ax, ay] = [bx, by];
      continue;
    }
    const [dx, dy] = [bx - ax, by - ay];
    const long = dx * dx + dy * dy;
    const t = long === 0 ? 0 : Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / long));
    least = Math.min(least, Math.hypot(x - ax - t * dx, y - ay - t * dy));
    [ax, ay] = [bx, by];
  }
  return least;
}

/** A click or double click in the drawing. */
export interface Press extends Hit {
  /** Where, in the scene. */
  at: [number, number];
  isDouble: boolean;
}
