import { FAR, mapScale } from "../paint/level_of_detail";
import { boxOf } from "../scene/find";
import type { Scene, SceneNode } from "../scene/scene";
import { centreView, revealView, type Size, type View } from "../scene/views";

/** Room around a followed node, for its outgoing edges, px of the scene. */
const AROUND = 110;

/** A view that shows a node: the current one if it does at a legible size; centred and readable on request. */
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

/** Move at the same scale just enough to show the node and its outgoing edges. */
export function followView(view: View, scene: Size, node: SceneNode, stage: Size): View {
  const { left, top, right, bottom } = boxOf(node);
  if (node.group) return revealView(view, boxOf(node), stage);
  // Nothing lies outside the scene, so a view of all of it stays.
  const around = {
    left: Math.max(0, left - AROUND),
    top: Math.max(0, top - AROUND),
    right: Math.min(scene.width, right + AROUND),
    bottom: Math.min(scene.height, bottom + AROUND),
  };
  return revealView(view, around, stage);
}
