import type { SceneNode } from "../scene/scene";
import type { Folder } from "./folder";
import type { Press } from "./press";

/** Opens and closes by mouse; false if the press changed nothing and may be meant for something else. */
export function pressToFold(
  folder: Folder,
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
  else if (node?.group && isMeant) folder.open(node);
  else return false;
  return true;
}

/** Opens and closes by keyboard: Enter and + open a closed box, which Space only selects; - closes the group around a node. */
export function keyToFold(folder: Folder, key: string, node: SceneNode): boolean {
  if (node.group && ["Enter", "+", "="].includes(key)) {
    folder.open(node);
    return true;
  }
  return key === "-" && folder.closeAround(node);
}
