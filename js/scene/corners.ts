import { boxOf } from "./find";
import { HEADER } from "./frame";
import { type Box, overlap } from "./grid";
import type { Scene } from "./scene";
import { type Size, seenBox, type View } from "./views";

/** A corner of the window that a picture is seen through. */
interface Corner {
  top: boolean;
  right: boolean;
}

/** The corners for a key, best first. */
const CORNERS: readonly Corner[] = [
  { top: false, right: false },
  { top: true, right: true },
  { top: true, right: false },
  { top: false, right: true },
];
/** Weights: nodes over heads of open boxes over lines over borders. */
const NODE = 100;
const HEAD = 40;
const LINE = 10;
const INSET = 8;

/** The corner where something of this size covers the least, and the covered weight. */
export function emptiestCorner(
  { nodes, edges, frames }: Pick<Scene, "nodes" | "edges" | "frames">,
  view: View,
  stage: Size,
  { width, height }: Size,
): Corner & { covers: number } {
  const costs = CORNERS.map(({ top, right }) => {
    const left = right ? stage.width - INSET - width : INSET;
    const above = top ? INSET : stage.height - INSET - height;
    const place = { left, top: above, right: left + width, bottom: above + height };
    const covers = (box: Box) => overlap(seenBox(view, box), place);
    const met = {
      nodes: nodes.filter((node) => covers(boxOf(node))).length,
      lines: edges.filter(({ curve }) => piecesOf(curve).some(covers)).length,
    };
    const heads = frames.filter((frame) => covers({ ...frame, bottom: frame.top + HEADER }));
    return met.nodes * NODE + heads.length * HEAD + met.lines * LINE + frames.filter(covers).length;
  });
  const least = Math.min(...costs);
  return { ...CORNERS[costs.indexOf(least)], covers: least };
}

/** Boxes around the pieces of a curve. */
function piecesOf(curve: Float64Array): Box[] {
  const boxes: Box[] = [];
  for (let i = 0; i + 7 < curve.length; i += 6) {
    const [ax, ay, bx, by] = [curve[i], curve[i + 1], curve[i + 6], curve[i + 7]];
    boxes.push({
      left: Math.min(ax, bx),
      top: Math.min(ay, by),
      right: Math.max(ax, bx) + 1,
      bottom: Math.max(ay, by) + 1,
    });
  }
  return boxes;
}
