import { pointer, select } from "d3-selection";
import { type D3ZoomEvent, type ZoomTransform, zoom, zoomIdentity } from "d3-zoom";
import { focusIn } from "../dom/element";
import { prefersLessMotion } from "../dom/theme";
import { fitView, keepInView, type Size, type View } from "../scene/views";

const LARGEST = 4;
const MOVE_MS = 260;
/** The largest zoom of one turn of a wheel: 1.2 times, as a power of two. */
const NOTCH = Math.log2(1.2);

/** The position of a mouse or a finger. */
export type Pointed = Pick<MouseEvent, "clientX" | "clientY" | "target">;

export interface CameraEvents {
  moved(view: View): void;
  /** A wheel event was left to the page. */
  wheelIgnored(): void;
  /** Whether the target handles double clicks itself. */
  isTaken?(at: Pointed): boolean;
}

/** Zoom and pan by mouse, touch and call. */
export class Camera {
  view: View = { k: 1, x: 0, y: 0 };
  private scene: Size = { width: 1, height: 1 };
  private stage: Size = { width: 0, height: 0 };
  private readonly behaviour = zoom<SVGSVGElement, unknown>();
  private request = 0;
  private target: View | null = null;

  constructor(
    private readonly svg: SVGSVGElement,
    canvas: HTMLElement,
    private readonly events: CameraEvents,
  ) {
    this.behaviour
      .extent(() => [
        [0, 0],
        [this.stage.width, this.stage.height],
      ])
      .clickDistance(4)
      .wheelDelta(({ deltaY, deltaMode, ctrlKey }) => {
        // Browsers report a trackpad's pinch as a wheel event with Ctrl and small numbers.
        const turned = -deltaY * (deltaMode === 1 ? 0.05 : 0.002) * (ctrlKey ? 10 : 1);
        return Math.max(-NOTCH, Math.min(NOTCH, turned));
      })
      .constrain((transform) => asTransform(keepInView(transform, this.scene, this.stage)))
      .filter((event: MouseEvent | WheelEvent | TouchEvent) => {
        if (event.type === "wheel") {
          // Readers scroll pages more often than they zoom drawings. A full screen has no page to scroll.
          const mine = event.ctrlKey || event.metaKey || canvas.closest(".is-full") !== null;
          if (!mine) this.events.wheelIgnored();
          return mine;
        }
        // One finger scrolls the page until the graph is tapped.
        if ("touches" in event) return event.touches.length > 1 || focusIn(canvas) === canvas;
        if (event.type === "dblclick") return !this.events.isTaken?.(event);
        return !event.ctrlKey && !event.button;
      })
      .on("zoom", (event: D3ZoomEvent<SVGSVGElement, unknown>) => {
        if (event.sourceEvent) this.stop();
        const { k, x, y } = event.transform;
        this.view = { k, x, y };
        this.events.moved(this.view);
      });
    select(svg).call(this.behaviour);
    // d3-zoom would animate a double click; without motion zoom at once. d3-zoom also calls this for a double tap, with
    // the event of the lifted finger.
    select(svg).on("dblclick.zoom", (event: MouseEvent | TouchEvent) => {
      const at = "changedTouches" in event ? event.changedTouches[0] : event;
      if (this.events.isTaken?.(at)) return;
      this.zoomBy(event.shiftKey ? 0.5 : 2, pointer(at, svg.parentNode));
    });
  }

  /** The current view, or the view that the camera moves to. */
  get aim(): View {
    return this.target ?? this.view;
  }

  resize(scene: Size, stage: Size): void {
    this.scene = scene;
    this.stage = stage;
    const least = Math.min(0.2, fitView(scene, stage).k * 0.8);
    this.behaviour.scaleExtent([least, LARGEST]);
  }

  /** Move to a view; smoothly unless the reader prefers less motion. */
  go(target: View, animate = true): void {
    this.stop();
    const from = this.view;
    if (!animate || prefersLessMotion()) {
      this.apply(target);
      return;
    }
    this.target = target;
    const start = performance.now();
    const step = (now: number) => {
      const t = Math.min(1, Math.max(0, (now - start) / MOVE_MS));
      const u = 1 - (1 - t) ** 3;
      this.apply(between(from, target, u, this.stage));
      if (t < 1) this.request = requestAnimationFrame(step);
      else this.stop();
    };
    this.request = requestAnimationFrame(step);
  }

  /** Zoom about a point of the stage, by default its middle. */
  zoomBy(
    factor: number,
    [cx, cy]: [number, number] = [this.stage.width / 2, this.stage.height / 2],
  ): void {
    const [least, largest] = this.behaviour.scaleExtent();
    const { aim } = this; // two quick presses zoom twice
    const k = Math.max(least, Math.min(largest, aim.k * factor));
    const ratio = k / aim.k;
    this.go({ k, x: cx - (cx - aim.x) * ratio, y: cy - (cy - aim.y) * ratio });
  }

  destroy(): void {
    this.stop();
    select(this.svg).on(".zoom", null);
  }

  private apply(view: View): void {
    this.behaviour.transform(
      select(this.svg),
      asTransform(keepInView(view, this.scene, this.stage)),
    );
  }

  private stop(): void {
    if (this.request) cancelAnimationFrame(this.request);
    this.request = 0;
    this.target = null;
  }
}

function asTransform({ k, x, y }: View): ZoomTransform {
  return zoomIdentity.translate(x, y).scale(k);
}

/** Interpolate views: the scale changes evenly, and the shared middle moves on a straight line. */
function between(from: View, to: View, u: number, { width, height }: Size): View {
  const k = from.k * (to.k / from.k) ** u;
  const centre = (view: View) => [(width / 2 - view.x) / view.k, (height / 2 - view.y) / view.k];
  const [ax, ay] = centre(from);
  const [bx, by] = centre(to);
  const w = from.k === to.k ? u : (1 / from.k - 1 / k) / (1 / from.k - 1 / to.k);
  return u === 1
    ? to
    : { k, x: width / 2 - k * (ax + (bx - ax) * w), y: height / 2 - k * (ay + (by - ay) * w) };
}
