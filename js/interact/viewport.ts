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

/** What of a scene is in sight: its first view, and moving to what is asked for. */
export class Viewport {
  /** Size of the window to the picture, px. */
  stage: Size = { width: 0, height: 0 };
  private scene: Scene | null = null;
  private framed = false;
  /** The first view, as long as nobody has moved it. */
  private home: View | null = null;
  private readonly camera: Camera;

  constructor(svg: SVGSVGElement, canvas: HTMLElement, events: CameraEvents) {
    this.camera = new Camera(svg, canvas, events);
  }

  /** What is seen now. */
  get view(): View {
    return this.camera.view;
  }

  /** What will be seen once the camera has come to rest. */
  get aim(): View {
    return this.camera.aim;
  }

  /** Whether anything of the scene has been seen: not before there is a size. */
  get isFramed(): boolean {
    return this.framed;
  }

  /** Whether this is still the first view. */
  get isUntouched(): boolean {
    return this.view === this.home;
  }

  /** Whether all of the picture is seen. */
  get isWhole(): boolean {
    return this.scene !== null && isWhole(this.scene, this.view, this.stage);
  }

  /** Shows a scene from its first view; false where that waits for a size. */
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

  /** Another picture of the same size and places takes the scene's place: nothing moves. */
  renew(scene: Scene): void {
    this.scene = scene;
  }

  /** Take another size of the stage. The middle does not move, and a scene seen whole stays whole. */
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

  /** Shows exactly this; `untouched` if it is still a first view, to be found anew when the size changes. */
  look(view: View, untouched: boolean): void {
    this.framed = true;
    this.camera.go(view, false);
    if (untouched) this.home = this.view;
  }

  /** Puts a place of the scene into the middle. */
  centreOn(x: number, y: number): void {
    const { k } = this.view;
    const { width, height } = this.stage;
    this.camera.go({ k, x: width / 2 - k * x, y: height / 2 - k * y }, false);
  }

  zoomBy(factor: number): void {
    this.camera.zoomBy(factor);
  }

  /**
   * Brings a node into view if it is outside, or too far away to be recognised; the copy nearest to what is seen, if
   * it has several.
   */
  reveal(id: number, centre = false): void {
    const { scene, stage } = this;
    const { aim } = this.camera;
    const index = nearestCopy(scene, id, aim, stage);
    if (scene && index !== null) this.move(nodeView(aim, scene, scene.nodes[index], stage, centre));
  }

  /** Brings a box of the scene into view; false if it is there. */
  revealBox(box: Box): boolean {
    return this.move(revealView(this.camera.aim, box, this.stage));
  }

  /**
   * Moves just so far, at the same scale, that the node and what it passes on are in view; of a hidden one what it is
   * folded into, and only if that is out of view.
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

  /** Moves to a box of the scene: fills the stage with it, just brings it into view, or centres it at a scale. */
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

  /** Move the view; false if it is there already, or on its way. */
  private move(view: View): boolean {
    const isElsewhere = view !== this.camera.aim;
    if (isElsewhere) this.camera.go(view);
    return isElsewhere;
  }
}
