import { headBox } from "../paint/frame_layer";
import { titleScale } from "../paint/level_of_detail";
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
  /** Path of the block that this sign opens, in a lens' head. */
  opens?: string;
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
  const isSign = target.closest(".gw-frame-sign, .gw-open-sign, .gw-lens-step") !== null;
  const opens = target.closest<SVGGElement>(".gw-lens-step")?.dataset.open;
  if (frame || sign || group || !heads) {
    return {
      node: group ? scene.nodes[Number(group.dataset.index)] : null,
      frame: frame?.dataset.path ?? null,
      folded: sign ? scene.edges[Number(sign.dataset.index)] : null,
      isSign,
      ...(opens !== undefined && { opens }),
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
