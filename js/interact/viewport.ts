import { nearestCopy } from "../scene/find";
import type { Box } from "../scene/grid";
import { foldedAt } from "../scene/members";
import type { Scene } from "../scene/scene";
import {
  boxView,
  centreView,
  firstView,
  fitView,
  inSight,
  isWhole,
  revealView,
  type Size,
  type View,
} from "../scene/views";
import { Camera, type CameraEvents } from "./camera";
import { followView, nodeView } from "./node_view";

/** The visible part of a scene: its first view, and later moves. */
export class Viewport {
  stage: Size = { width: 0, height: 0 };
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

  get isUntouched(): boolean {
    return this.view === this.home;
  }

  /** Whether the whole picture is visible. */
  get isWhole(): boolean {
    return this.scene !== null && isWhole(this.scene, this.view, this.stage);
  }

  /** Show a scene's first view; false if that waits for a size. */
  first(scene: Scene): boolean {
    this.scene = scene;
    this.framed = this.stage.width > 0;
    if (!this.framed) return false;
    this.put(scene, firstView(scene, this.stage));
    this.home = this.view;
    return true;
  }

  put(scene: Scene, view: View): void {
    this.scene = scene;
    this.camera.resize(scene, this.stage);
    this.camera.go(view, false);
  }

  /** Replace the scene by one with the same size and places; nothing moves. */
  renew(scene: Scene): void {
    this.scene = scene;
  }

  /** Set the stage's size. The middle stays, and a scene seen whole stays whole. */
  resize(stage: Size): "first" | "moved" | null {
    const { scene, stage: before, view } = this;
    if (stage.width === 0 || stage.height === 0) return null;
    if (before.width === stage.width && before.height === stage.height) return null;
    this.stage = stage;
    if (!scene) return null;
    if (!this.framed || this.isUntouched) return this.first(scene) ? "first" : null;
    const [dx, dy] = [(stage.width - before.width) / 2, (stage.height - before.height) / 2];
    const wasWhole = isWhole(scene, view, before);
    this.put(
      scene,
      wasWhole ? fitView(scene, stage) : { k: view.k, x: view.x + dx, y: view.y + dy },
    );
    return "moved";
  }

  fit(animate = true): void {
    if (this.scene) this.camera.go(fitView(this.scene, this.stage), animate);
  }

  /** Show this view; `untouched` if it is still a first view, which a resize computes anew. */
  look(view: View, untouched: boolean): void {
    this.framed = true;
    this.camera.go(view, false);
    if (untouched) this.home = this.view;
  }

  centreOn(x: number, y: number): void {
    const { k } = this.view;
    const { width, height } = this.stage;
    this.camera.go({ k, x: width / 2 - k * x, y: height / 2 - k * y }, false);
  }

  zoomBy(factor: number): void {
    this.camera.zoomBy(factor);
  }

  /** Bring a node into view if it is outside or too small; if it has copies, the nearest one. */
  reveal(id: number, centre = false): void {
    const { scene, stage } = this;
    const { aim } = this.camera;
    const index = nearestCopy(scene, id, aim, stage);
    if (scene && index !== null) this.move(nodeView(aim, scene, scene.nodes[index], stage, centre));
  }

  /** Bring a box into view; false if it is already. */
  revealBox(box: Box): boolean {
    return this.move(revealView(this.camera.aim, box, this.stage));
  }

  /**
   * Move at the same scale just enough to show the node and its outgoing edges. For a hidden node, show its box if that
   * is out of view.
   */
  follow(id: number): void {
    const { scene, stage } = this;
    const { aim } = this.camera;
    if (!scene || !this.framed) return;
    const index = nearestCopy(scene, id, aim, stage);
    if (index !== null) this.move(followView(aim, scene, scene.nodes[index], stage));
    else {
      const sign = foldedAt(scene, id);
      if (sign) this.revealBox({ left: sign.x, top: sign.y, right: sign.x, bottom: sign.y });
    }
  }

  /** Fill the stage with a box, bring it into view, or centre it at a scale. */
  lookAt(box: Box, how: "into" | "sight" | number): void {
    const { aim } = this.camera;
    const middle = { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
    if (how === "into") this.move(boxView(box, this.stage));
    else if (how === "sight") this.move(inSight(aim, box, this.stage));
    else this.move(centreView({ ...aim, k: how }, middle, this.stage));
  }

  destroy(): void {
    this.camera.destroy();
  }

  /** Move the view; false if it is there or on its way. */
  private move(view: View): boolean {
    const isElsewhere = view !== this.camera.aim;
    if (isElsewhere) this.camera.go(view);
    return isElsewhere;
  }
}
