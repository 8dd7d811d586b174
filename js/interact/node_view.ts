import { FAR, mapScale } from "../paint/level_of_detail";
import { boxOf } from "../scene/find";
import type { Scene, SceneNode } from "../scene/scene";
import { centreView, revealView, type Size, type View } from "../scene/views";

/** Room around a node that is followed, for where its gradients go next, px of the scene. */
const AROUND = 110;

/**
 * The view that shows a node: this one if it does, and large enough to be recognised; centred on it, where its texts are
 * read, if that is asked for.
 */
export function nodeView(
  view: View,
  scene: Scene,
  node: SceneNode,
  stage: Size,
  centre: boolean,
): View {
  if (!centre && view.k >= FAR) return revealView(view, boxOf(node), stage);
  return centreView({ ...view, k: Math.max(view.k, mapScale(scene)) }, node, stage);
}

/** The same scale, moved just so far that the node and what it passes on are in view. */
export function followView(view: View, scene: Size, node: SceneNode, stage: Size): View {
  const { left, top, right, bottom } = boxOf(node);
  if (node.group) return revealView(view, boxOf(node), stage);
  // Nothing stands outside the scene: a view of all of it stays where it is.
  const around = {
    left: Math.max(0, left - AROUND),
    top: Math.max(0, top - AROUND),
    right: Math.min(scene.width, right + AROUND),
    bottom: Math.min(scene.height, bottom + AROUND),
  };
  return revealView(view, around, stage);
}
