import type { SceneNode } from "../scene/scene";
import type { Breadcrumbs } from "./breadcrumbs";
import type { FoldController } from "./fold_controller";
import type { Press } from "./press";

/** Open, close, enter and leave by mouse; false if the press changed nothing. */
export function pressToFold(
  folds: FoldController,
  breadcrumbs: Breadcrumbs,
  { node, frame, folded, isSign, at, isDouble }: Press,
): boolean {
  if (folded) {
    folds.unfold(folded.merged?.folded ?? []);
    return true;
  }
  // Signs take one click, everything else two.
  const isMeant = isDouble || isSign;
  if (frame !== null && isMeant) folds.close(frame, at);
  else if (node?.group && isSign) folds.open(node);
  else if (node?.group && isMeant) breadcrumbs.enter(node);
  else return isDouble && !node && breadcrumbs.leave();
  return true;
}

/** Open and close by keyboard: Enter enters a closed box, + opens it in place, - closes the group around a node. */
export function keyToFold(
  folds: FoldController,
  breadcrumbs: Breadcrumbs,
  key: string,
  node: SceneNode,
): boolean {
  if (node.group && key === "Enter") {
    breadcrumbs.enter(node);
    return true;
  }
  if (node.group && ["+", "="].includes(key)) {
    folds.open(node);
    return true;
  }
  return key === "-" && folds.closeAround(node);
}
