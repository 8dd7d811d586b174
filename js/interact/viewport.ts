import { mapScale } from "../paint/level_of_detail";
import { boxOf, nearestCopy } from "../scene/find";
import type { Box } from "../scene/grid";
import { foldedAt } from "../scene/members";
import type { Scene, SceneNode } from "../scene/scene";
import {
  besideView,
  boxView,
  centreView,
  contains,
  firstView,
  fitBeside,
  inSight,
  isSameView,
  isWhole,
  LARGEST_FIT,
  LARGEST_FULL,
  revealView,
  type Size,
  seen,
  type View,
} from "../scene/views";
import { Camera, type CameraEvents } from "./camera";

const NOWHERE: View = { k: 1, x: 0, y: 0 };

/** The visible part of a scene: its first view, and later moves. */
export class Viewport {
  stage: Size = { width: 0, height: 0 };
  /** The width of a panel that may open over the right side, px. */
  spare = 0;
  private covered = 0;
  /** The views before and after the picture moved aside. */
  private aside: { from: View; to: View } | null = null;
  /** The view without a panel, and the one that the panel, or what it is about, moved it to. */
  private uncovered: { from: View; to: View } = { from: NOWHERE, to: NOWHERE };
  /** The largest scale of the whole picture. */
  private largest = LARGEST_FIT;
  /** The covered width when the first view was made. */
  private homeCover = 0;
  /** Until when moves wait, because a second click may come to the same place. */
  private quietUntil = 0;
  private waiting: (() => void)[] = [];
  private timer = 0;
  private scene: Scene | null = null;
  private framed = false;
  private home: View | null = null;
  private readonly camera: Camera;

  constructor(svg: SVGSVGElement, canvas: HTMLElement, events: CameraEvents) {
    this.camera = new Camera(svg, canvas, events);
  }

  get view(): View {
    return this.camera.view;
  }

  /** The view when the camera rests. */
  get aim(): View {
    return this.camera.aim;
  }

  /** Whether the scene has a view, which needs a size. */
  get isFramed(): boolean {
    return this.framed;
  }

  /** The width at the right that a panel covers, px. */
  get cover(): number {
    return this.covered;
  }

  /** Cover the right side. A picture that is seen whole moves aside for it, and back. */
  set cover(width: number) {
    if (width === this.covered) return;
    if (this.covered === 0) this.forget();
    this.covered = width;
    this.whenQuiet(() => {
      const { from, to } = this.uncovered;
      const isBack = this.covered === 0 && this.framed && isSameView(to, this.aim);
      if (!isBack) this.moveAside();
      else if (!isSameView(from, to)) this.camera.go(from, true);
    });
  }

  /** Take the view as one without a panel. */
  private forget(): void {
    const { aim } = this;
    this.uncovered = { from: this.origin(aim), to: aim };
  }

  /** The uncovered part of the stage, from its left. */
  get sight(): Size {
    const { width, height } = this.stage;
    return { width: Math.max(LEAST_SIGHT, width - this.cover), height };
  }

  get isUntouched(): boolean {
    return this.home !== null && isSameView(this.origin(this.view), this.home);
  }

  /** Whether the whole picture is visible. */
  get isWhole(): boolean {
    return this.scene !== null && isWhole(this.scene, this.view, this.stage);
  }

  /** Whether a picture fits at the scale of the view. */
  hasRoomFor({ width, height }: Size): boolean {
    const { k } = this.camera.aim;
    return k * width <= this.sight.width && k * height <= this.sight.height;
  }

  /** Show a scene's first view; false if that waits for a size. */
  first(scene: Scene): boolean {
    this.scene = scene;
    this.homeCover = this.cover;
    return this.goHome(scene);
  }

  /** A panel that opened after the first view does not change it. */
  private goHome(scene: Scene): boolean {
    const { width, height } = this.stage;
    this.framed = width > 0;
    if (!this.framed) return false;
    this.homeCover = Math.min(this.homeCover, this.cover);
    const room = { width: width - this.homeCover, height };
    this.put(scene, firstView(scene, room, this.spareBeside(this.homeCover), this.largest));
    this.home = this.view;
    this.moveAside(false);
    return true;
  }

  put(scene: Scene, view: View): void {
    this.scene = scene;
    this.aside = null;
    this.camera.resize(scene, this.stage);
    this.camera.go(view, false);
    this.uncovered = { from: view, to: view };
  }

  /** The room for a panel that is not open yet; none on a full screen, which the picture fills. */
  private spareBeside(cover: number): number {
    return this.largest === LARGEST_FULL ? 0 : this.spare - cover;
  }

  /** A view of all of a scene. */
  whole(scene: Scene): View {
    return fitBeside(scene, this.sight, this.spareBeside(this.cover), this.largest);
  }

  /** Move a whole picture out from under what covers it, or back, at the same scale. */
  private moveAside(animate = true): void {
    const { scene, sight, stage } = this;
    if (!scene || !this.framed) return;
    const { aim } = this.camera;
    const from = this.origin(aim);
    const to = isWhole(scene, from, stage) ? besideView(from, scene, sight) : from;
    this.aside = to === from ? null : { from, to };
    if (!isSameView(to, aim)) this.goWith(to, animate);
  }

  /** Move for a panel, not for the reader: once it closes, the view is as before. */
  private goWith(to: View, animate: boolean): void {
    if (isSameView(this.uncovered.to, this.aim)) this.uncovered.to = to;
    this.camera.go(to, animate);
  }

  /** The view before the picture moved aside, unless the reader has moved it since. */
  private origin(view: View): View {
    const { aside } = this;
    return aside && isSameView(aside.to, view) ? aside.from : view;
  }

  /** Replace the scene by one with the same size and places; nothing moves. */
  renew(scene: Scene): void {
    this.scene = scene;
  }

  /** Set the stage's size. The middle stays, or the view `stays`; a scene seen whole stays whole. */
  resize(stage: Size, stays = false): "first" | "moved" | null {
    const { scene, stage: before, view } = this;
    if (stage.width === 0 || stage.height === 0) return null;
    if (before.width === stage.width && before.height === stage.height) return null;
    this.stage = stage;
    if (!scene) return null;
    if (stays && this.framed) {
      this.camera.resize(scene, stage);
      return "moved";
    }
    const isScrollBar = before.height === stage.height && isNear(before.width, stage.width);
    if (!this.framed || (this.isUntouched && !isScrollBar))
      return this.goHome(scene) ? "first" : null;
    const [dx, dy] = [(stage.width - before.width) / 2, (stage.height - before.height) / 2];
    const { k, x, y } = this.origin(view);
    const wasWhole = isWhole(scene, { k, x, y }, before) && !isScrollBar;
    const wasHome = this.isUntouched;
    this.put(scene, wasWhole ? this.whole(scene) : { k, x: x + dx, y: y + dy });
    if (wasHome) this.home = this.view;
    this.moveAside(false);
    return "moved";
  }

  fit(animate = true): void {
    if (this.scene) this.camera.go(this.whole(this.scene), animate);
  }

  /** Fit the picture to a full screen, or to the page again. */
  fill(full: boolean): void {
    this.largest = full ? LARGEST_FULL : LARGEST_FIT;
    this.fit(false);
    this.home = this.view;
  }

  /** Show this view; `untouched` if it is still a first view, which a resize computes anew. */
  look(view: View, untouched: boolean): void {
    this.framed = true;
    this.camera.go(view, false);
    if (untouched) this.home = this.origin(this.view);
  }

  centreOn(x: number, y: number): void {
    const { k } = this.view;
    const { width, height } = this.sight;
    this.camera.go({ k, x: width / 2 - k * x, y: height / 2 - k * y }, false);
  }

  /** Zoom about a node if it is in sight, else about the middle. */
  zoomBy(factor: number, id: number | null = null): void {
    const { scene, sight, aim: view } = this;
    const index = id === null ? null : nearestCopy(scene, id, view, sight);
    const node = scene?.nodes[index ?? -1];
    const at = node && { left: node.x, top: node.y, right: node.x, bottom: node.y };
    const isSeen = at && contains(seen(view, sight, 0), at);
    this.camera.zoomBy(
      factor,
      isSeen
        ? [view.k * node.x + view.x, view.k * node.y + view.y]
        : [sight.width / 2, sight.height / 2],
    );
  }

  /** Keep everything in its place while a second click may come. */
  keepStill(): void {
    this.quietUntil = performance.now() + DOUBLE_CLICK_MS;
  }

  /** Run this at once, or when no second click can come any more; what waits keeps its order. */
  whenQuiet(move: () => void): void {
    const rest = this.quietUntil - performance.now();
    if (rest <= 0 && this.waiting.length === 0) {
      move();
      return;
    }
    this.waiting.push(move);
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(
      () => {
        for (const waited of this.waiting.splice(0)) waited();
      },
      Math.max(0, rest),
    );
  }

  /**
   * Bring a node into view if it is hidden, at the same scale; if it has copies, the nearest one. `centre`: in the middle
   * and readable, as a search shows it.
   */
  reveal(id: number, centre = false): void {
    this.whenQuiet(() => {
      const { scene, sight } = this;
      const { aim } = this.camera;
      const index = nearestCopy(scene, id, aim, sight);
      if (scene && index !== null)
        this.move(nodeView(aim, scene, scene.nodes[index], sight, centre));
    });
  }

  /** Bring a box into view; false if it is already. */
  revealBox(box: Box): boolean {
    return this.move(revealView(this.camera.aim, box, this.sight));
  }

  /** Show the node and its outgoing edges at the same scale, at once: only the gradient moves. */
  follow(id: number): void {
    const { scene, sight } = this;
    const { aim } = this.camera;
    if (!scene || !this.framed) return;
    const index = nearestCopy(scene, id, aim, sight);
    if (index !== null) this.move(followView(aim, scene, scene.nodes[index], sight), false);
    else {
      const sign = foldedAt(scene, id);
      if (sign) this.revealBox({ left: sign.x, top: sign.y, right: sign.x, bottom: sign.y });
    }
  }

  /** Fill the stage with a box, bring it into view, or centre it at a scale. */
  lookAt(box: Box, how: "into" | "sight" | number): void {
    const { aim } = this.camera;
    const { sight } = this;
    const middle = { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
    if (how === "into") this.move(boxView(box, sight));
    else if (how === "sight") this.move(inSight(aim, box, sight));
    else this.move(centreView({ ...aim, k: how }, middle, sight));
  }

  destroy(): void {
    window.clearTimeout(this.timer);
    this.camera.destroy();
  }

  /** Move the view; false if it is there or on its way. */
  private move(view: View, animate = true): boolean {
    const isElsewhere = view !== this.camera.aim;
    if (isElsewhere) this.goWith(view, animate);
    return isElsewhere;
  }
}

/** The longest time between the clicks of a double click, ms. */
const DOUBLE_CLICK_MS = 320;
/** The least width to show something in, px. */
const LEAST_SIGHT = 120;
/** The largest width of a scroll bar, px. */
const SCROLL_BAR = 20;

function isNear(one: number, other: number): boolean {
  return Math.abs(one - other) <= SCROLL_BAR;
}

/** Room around a followed node, for its outgoing edges, px of the scene. */
const AROUND = 110;

/** A view that shows a node: the current one if it does; centred and readable on request. */
function nodeView(view: View, scene: Scene, node: SceneNode, stage: Size, centre: boolean): View {
  if (!centre) return revealView(view, boxOf(node), stage);
  return centreView({ ...view, k: Math.max(view.k, mapScale(scene)) }, node, stage);
}

/** Move at the same scale just enough to show the node and its outgoing edges. */
function followView(view: View, scene: Size, node: SceneNode, stage: Size): View {
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
