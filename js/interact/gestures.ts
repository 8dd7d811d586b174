import type { SceneNode } from "../scene/scene";
import type { Folder } from "./folder";
import type { Press } from "./press";
import type { Way } from "./way";

/** Opens and closes by mouse, goes into boxes and back out; false if the press changed nothing and may be meant for something else. */
export function pressToFold(
  folder: Folder,
  way: Way,
  { node, frame, folded, isSign, at, isDouble, opens }: Press,
): boolean {
  if (folded) {
    folder.unfold(folded.merged?.folded ?? []);
    return true;
  }
  if (opens !== undefined) return folder.openBlock(opens);
  // Signs take one click, everything else two.
  const isMeant = isDouble || isSign;
  if (frame !== null && isMeant) folder.close(frame, at);
  else if (node?.group && isSign) folder.open(node);
  else if (node?.group && isMeant) way.enter(node);
  else return isDouble && !node && way.leave();
  return true;
}

/**
 * Opens and closes by keyboard: Enter goes into a closed box, + opens it where it is, Space only selects it; - closes the
 * group around a node.
 */
export function keyToFold(folder: Folder, way: Way, key: string, node: SceneNode): boolean {
  if (node.group && key === "Enter") {
    way.enter(node);
    return true;
  }
  if (node.group && ["+", "="].includes(key)) {
    folder.open(node);
    return true;
  }
  return key === "-" && folder.closeAround(node);
}
