import { openPaths } from "../fold/folding";
import { groupTitle } from "../scene/box_words";
import { boxAround } from "../scene/find";
import type { SceneNode } from "../scene/scene";
import type { Drawing } from "./drawing";
import type { FoldController } from "./fold_controller";
import type { Press } from "./hit";

/** An entered box. */
interface Inside {
  path: string;
  /** The scale outside; null if the whole picture was visible. */
  scale: number | null;
}

interface BreadcrumbEvents {
  entering(): void;
  /** The entered boxes changed: their titles, outermost first. */
  moved(titles: readonly string[]): void;
}

/** Enter boxes and leave them, with the camera. */
export class Breadcrumbs {
  private boxes: Inside[] = [];

  constructor(
    private readonly drawing: Drawing,
    private readonly folds: FoldController,
    private readonly events: BreadcrumbEvents,
  ) {}

  get isInside(): boolean {
    return this.boxes.length > 0;
  }

  /** Open a closed box and enter it. A block of a strip opens in its place. */
  enter(node: SceneNode): void {
    const { drawing, folds, boxes } = this;
    const { scene, viewport } = drawing;
    if (!node.group || !scene) return;
    if (node.bar) {
      folds.open(node);
      return;
    }
    const [path] = node.group.paths;
    this.events.entering();
    const scale = viewport.isWhole ? null : viewport.view.k;
    this.boxes = [...boxes, { path, scale }];
    folds.open(node, "into");
    this.tell();
  }

  leave(depth = this.boxes.length - 1): boolean {
    const { drawing, folds, boxes } = this;
    const [left] = boxes.slice(Math.max(0, depth));
    if (!left) return false;
    this.boxes = boxes.slice(0, depth);
    const around = this.boxes.at(-1)?.path ?? null;
    folds.leave(left.path, (scene, members) => {
      const frame = scene.frames.find(({ path }) => path === around);
      const box = boxAround(scene, left.path, members);
      if (frame) drawing.viewport.lookAt(frame, "into");
      else if (left.scale === null || !box) drawing.viewport.fit();
      else drawing.viewport.lookAt(box, left.scale);
    });
    this.tell();
    return true;
  }

  update(): void {
    const { folding } = this.folds;
    const open = folding && openPaths(folding);
    const closed = this.boxes.findIndex(({ path }) => !open?.has(path));
    if (closed < 0) return;
    this.boxes = this.boxes.slice(0, closed);
    this.tell();
  }

  private tell(): void {
    this.events.moved(this.boxes.map(({ path }) => groupTitle(path)));
  }
}

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
