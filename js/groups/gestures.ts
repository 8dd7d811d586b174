import type { Press } from "../drawing/press";
import type { SceneNode } from "../drawing/scene";
import type { Folder } from "./folder";

/** Opens and closes by mouse; false if the press changed nothing and may be meant for something else. */
export function pressToFold(folder: Folder, scene: Scenery, press: Press): boolean {
  const { target, node, at, isDouble } = press;
  const edge = target.closest(".gw-edge-folded")?.closest<SVGGElement>(".gw-edge");
  if (edge) {
    folder.unfold(scene?.edges[Number(edge.dataset.index)]?.merged?.folded ?? []);
    return true;
  }
  // Signs take one click, everything else two.
  const isMeant = isDouble || target.closest(".gw-frame-sign, .gw-open-sign") !== null;
  const frame = target.closest(".gw-frame-head")?.closest<SVGGElement>(".gw-group-frame");
  if (frame && isMeant) folder.close(frame.dataset.path ?? "", at);
  else if (node?.group && isMeant) folder.open(node);
  else return false;
  return true;
}

type Scenery = {
  edges: readonly { merged?: { folded: readonly number[] } }[];
} | null;

/** Opens and closes by keyboard: Enter and + open a closed box, - closes the group around a node. */
export function keyToFold(folder: Folder, key: string, node: SceneNode): boolean {
  if (node.group && ["Enter", " ", "+", "="].includes(key)) {
    folder.open(node);
    return true;
  }
  return key === "-" && folder.closeAround(node);
}
