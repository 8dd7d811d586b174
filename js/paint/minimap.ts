import { element, onDrag } from "../dom/element";
import { Remembered } from "../dom/remembered";
import { boxOf } from "../scene/find";
import { HEADER } from "../scene/frame";
import { type Box, overlap } from "../scene/grid";
import type { Scene, SceneNode } from "../scene/scene";
import { indexOf } from "../scene/scene_index";
import { contains, fitView, LEGIBLE, type Size, seen, seenBox, type View } from "../scene/views";
import { type Progress, runningAt } from "../steps/recording";
import { settingOf } from "../theme/sheet";
import { THEMES } from "../theme/styles";
import { placesOf } from "./beacons";
import { mapScale } from "./level_of_detail";
import type { Marks } from "./marks";
import type { Raster } from "./raster";

/** Its limits of size, and its distance from the corner, px. */
const MOST: Size = { width: 168, height: 116 };
const LEAST = 36;
const OFF = 10;
/** The least drawing with room for it, px. */
const LEAST_STAGE: Size = { width: 440, height: 260 };
/** The least size of the mark of the view, px. */
const LEAST_SEEN = 6;
const DOT = 2.6;
/** The most distinguishable dots. */
const MOST_DOTS = 1500;
/** A picture that is legible as a whole has a map only where less of it than this is seen. */
const LITTLE = 0.35;
/** A view that has not moved for so long is at rest, ms. */
const REST_MS = 300;
/** The weight of a selected, running or found node in a corner, in nodes. */
const ATTENDED = 1000;
/** Corners to lie in, best first: at the left, at the top. */
const CORNERS = [
  [false, false],
  [true, false],
  [false, true],
  [true, true],
] as const;

/**
 * The whole graph in a free corner of a drawing that shows little of it. Without a free corner it is there while the view
 * moves, or from afar, where no node can be read. For the pointer only, since keys do the same.
 */
export class Minimap {
  readonly element: HTMLElement;
  private readonly canvas = element("canvas", "gw-minimap-picture");
  private readonly frame = element("div", "gw-minimap-window");
  private size: Size = { width: 0, height: 0 };
  private scene: Scene | null = null;
  private timer = 0;
  private settle = () => {};
  private readonly placed = new Remembered();
  private readonly moved = new Remembered();
  private readonly painted = new Remembered();

  /** `go` centres a point of the scene. */
  constructor(private readonly go: (x: number, y: number) => void) {
    this.element = element(
      "div",
      {
        class: "gw-minimap",
        "aria-hidden": "true",
        title: "The whole graph, and what of it is seen: drag or click to go there",
        hidden: true,
      },
      [this.canvas, this.frame],
    );
    onDrag(this.element, (event) => this.grab(event));
    this.element.addEventListener("pointerleave", () => this.settle());
    // A press would take the focus from the drawing.
    this.element.addEventListener("mousedown", (event) => event.preventDefault());
  }

  /** Show it if much of the scene is out of view. */
  place(scene: Scene, marks: Marks, view: View, stage: Size): void {
    this.scene = scene;
    const { selected, hit, focused, progress } = marks;
    const { width: across, height: down } = stage;
    const inputs = [selected, hit, focused, running(progress)];
    if (!this.placed.isNew(scene.edges, view, across, down, ...inputs)) return;
    const isMoving = this.moved.isNew(view) && this.isShown;
    window.clearTimeout(this.timer);
    this.element.hidden = !isNeeded(scene, view, stage);
    if (!this.isShown) return;
    const k = Math.min(MOST.width / scene.width, MOST.height / scene.height);
    this.size = {
      width: Math.round(Math.max(LEAST, k * scene.width)),
      height: Math.round(Math.max(LEAST, k * scene.height)),
    };
    const { width, height } = this.size;
    this.settle = () => this.goToCorner(scene, marks, view, stage);
    if (isMoving) {
      this.element.classList.remove("is-brief");
      this.timer = window.setTimeout(() => this.settle(), REST_MS);
    } else this.settle();
    const part = windowIn(this.size, scene, view, stage);
    this.element.style.width = `${width}px`;
    this.element.style.height = `${height}px`;
    this.frame.style.transform = `translate(${part.left}px, ${part.top}px)`;
    this.frame.style.width = `${part.right - part.left}px`;
    this.frame.style.height = `${part.bottom - part.top}px`;
  }

  /** Go to the corner with the fewest nodes, but not from under the pointer. */
  private goToCorner(scene: Scene, marks: Marks, view: View, stage: Size): void {
    const { classList } = this.element;
    if (this.element.matches(":hover")) return;
    const covered = CORNERS.map(([isLeft, isTop]) => {
      const { width, height } = this.size;
      const left = isLeft ? OFF : stage.width - OFF - width;
      const top = isTop ? OFF : stage.height - OFF - height;
      return coveredBy(
        { left, top, right: left + width, bottom: top + height },
        scene,
        marks,
        view,
      );
    });
    const least = Math.min(...covered);
    const [isLeft, isTop] = CORNERS[covered.indexOf(least)];
    classList.toggle("is-left", isLeft);
    classList.toggle("is-top", isTop);
    classList.toggle("is-brief", least > 0 && view.k >= mapScale(scene));
  }

  get isShown(): boolean {
    return !this.element.hidden;
  }

  /** Draw the overview with its dots; nothing if both are unchanged. */
  draw(overview: Raster, marks: Marks, ratio: number): void {
    const { selected, hits, hit, progress, alarms } = marks;
    const { width, height } = this.size;
    const marked = [...(progress?.recording.marks.keys() ?? [])].join();
    const inputs = [selected, hits, hit, running(progress), marked, alarms];
    const key = [overview, ...inputs, width, height, ratio];
    const pen = this.canvas.getContext("2d");
    if (!pen || !this.scene || !this.painted.isNew(...key)) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    pen.imageSmoothingQuality = "high";
    pen.drawImage(overview.canvas, 0, 0, this.canvas.width, this.canvas.height);
    const colours = THEMES[settingOf(this.element).theme];
    const [kx, ky] = [width / this.scene.width, height / this.scene.height];
    for (const { x, y, colour } of dotsOf(this.scene, marks).slice(-MOST_DOTS)) {
      pen.beginPath();
      pen.arc(kx * x * ratio, ky * y * ratio, DOT * ratio, 0, 2 * Math.PI);
      pen.fillStyle = colours[colour];
      pen.strokeStyle = colours.stage;
      pen.lineWidth = ratio;
      pen.stroke();
      pen.fill();
    }
  }

  /** Return what a move from here does; a press beside the window centres there. */
  private grab(event: PointerEvent): (event: PointerEvent) => void {
    const { left, top, right, bottom } = this.frame.getBoundingClientRect();
    const { clientX: x, clientY: y } = event;
    const isOnWindow = x >= left && x <= right && y >= top && y <= bottom;
    /** From the pointer to the view's middle, px. */
    const grip = isOnWindow ? [(left + right) / 2 - x, (top + bottom) / 2 - y] : [0, 0];
    const follow = ({ clientX, clientY }: PointerEvent) => {
      const { scene, size } = this;
      const map = this.element.getBoundingClientRect();
      const across = (clientX - map.left + grip[0]) / size.width;
      const down = (clientY - map.top + grip[1]) / size.height;
      if (scene) this.go(across * scene.width, down * scene.height);
    };
    if (!isOnWindow) follow(event);
    return follow;
  }
}

/** Whether a reader may be lost: the whole picture is illegible, or little of it is seen. */
function isNeeded(scene: Scene, view: View, stage: Size): boolean {
  if (stage.width < LEAST_STAGE.width || stage.height < LEAST_STAGE.height) return false;
  const { width, height } = scene;
  const box = seen(view, stage, 0);
  if (contains(box, { left: 0, top: 0, right: width, bottom: height })) return false;
  const across = Math.min(width, box.right) - Math.max(0, box.left);
  const down = Math.min(height, box.bottom) - Math.max(0, box.top);
  const isLegible = fitView(scene, stage).k >= LEGIBLE;
  return !isLegible || across * down < LITTLE * width * height;
}

/** The number of nodes and titles under a corner of the stage; the reader's nodes count more. */
function coveredBy(corner: Box, scene: Scene, marks: Marks, view: View): number {
  const [x, y] = [-view.x / view.k, -view.y / view.k];
  const there = seenBox({ k: 1 / view.k, x, y }, corner);
  const titles = scene.frames.filter((frame) =>
    overlap({ ...frame, bottom: frame.top + HEADER }, there),
  );
  const own = attended(scene, marks).filter((node) => overlap(boxOf(node), there));
  return indexOf(scene).count(there) + titles.length + ATTENDED * own.length;
}

/** The node that the last step ran. */
function running(progress: Progress | null): number | null {
  return progress && runningAt(progress.recording, progress.cursor);
}

/** The selected, focused, hovered and running nodes. */
function attended(scene: Scene, { selected, focused, hit, progress }: Marks): SceneNode[] {
  return [selected, hit, running(progress)]
    .flatMap((id) => scene.drawn[id ?? -1] ?? [])
    .concat(focused ?? [])
    .map((index) => scene.nodes[index]);
}

/** The view's place on a map of this size, px; large enough to grab. */
export function windowIn(map: Size, scene: Size, view: View, stage: Size): Box {
  const { left, top, right, bottom } = seen(view, stage, 0);
  const span = (low: number, high: number, whole: number, room: number) => {
    const from = Math.max(0, Math.min(room, (low / whole) * room));
    const to = Math.max(0, Math.min(room, (high / whole) * room));
    const less = Math.max(0, LEAST_SEEN - (to - from)) / 2;
    const start = Math.max(0, Math.min(room - LEAST_SEEN, from - less));
    return [start, Math.max(start + LEAST_SEEN, Math.min(room, to + less))];
  };
  const [x0, x1] = span(left, right, scene.width, map.width);
  const [y0, y1] = span(top, bottom, scene.height, map.height);
  return { left: x0, top: y0, right: x1, bottom: y1 };
}

interface Dot {
  x: number;
  y: number;
  /** Its name in the theme. */
  colour: string;
}

/** The dots of a large graph, most urgent last: hits, the selection, the running node, errors. */
export function dotsOf(scene: Scene, { selected, hits, progress, alarms }: Marks): Dot[] {
  const dots: Dot[] = [];
  const add = (id: number, colour: string) => {
    for (const { x, y } of placesOf(scene, id)) dots.push({ x, y, colour });
  };
  for (const id of hits ?? []) add(id, "hit");
  if (selected !== null && selected < scene.drawn.length) add(selected, "accent");
  if (progress) {
    const runs = running(progress);
    if (runs !== null) add(runs, "grad");
    for (const id of progress.recording.marks.keys()) add(id, "alarm");
  }
  for (const [index, alarm] of alarms ?? []) {
    const { x, y } = scene.nodes[index];
    if (alarm !== "0") dots.push({ x, y, colour: "alarm" });
  }
  return dots;
}
