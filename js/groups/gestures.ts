import type { Press } from "../drawing/press";
import type { SceneNode } from "../drawing/scene";
import type { Folder } from "./folder";

/** Opens and closes by mouse; true if the press was meant for that. */
export function pressToFold(folder: Folder, scene: Scenery, press: Press): boolean {
  const { target, node, at, isDouble } = press;
  const sign = target.closest(".gw-edge-folded")?.closest<SVGGElement>(".gw-edge");
  if (sign) {
    const folded = scene?.edges[Number(sign.dataset.index)]?.merged?.folded;
    if (folded && !isDouble) folder.unfold(folded);
    return true;
  }
  const frame = target.closest(".gw-frame-head")?.closest<SVGGElement>(".gw-group-frame");
  if (frame) {
    const isSign = target.closest(".gw-frame-sign") !== null;
    if (isDouble !== isSign) folder.close(frame.dataset.path ?? "", at);
    return true;
  }
  const onSign = target.closest(".gw-open-sign") !== null;
  if (!node?.group || (!isDouble && !onSign)) return false;
  // A double click on the sign has opened the box by its first click.
  if (isDouble !== onSign) folder.open(node);
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
