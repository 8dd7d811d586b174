import { svgElement } from "../dom/element";
import { foldedAt } from "../scene/members";
import type { Scene } from "../scene/scene";
import type { View } from "../scene/views";
import { isOver, type Progress, runningAt } from "../steps/recording";
import { markPart } from "./label_parts";
import type { Marks } from "./marks";
import { makePart, part } from "./parts";

interface Beacon {
  x: number;
  y: number;
  /** Shown only while nodes are too small to show it. */
  far: boolean;
  element: SVGElement;
}

/** Signs with the same size at every zoom: errors and, from afar, the running node. */
export class Beacons {
  readonly element = svgElement("g", "gw-beacons");
  private beacons: Beacon[] = [];

  /** Make the signs of these marks. */
  show(scene: Scene, { progress }: Marks): void {
    this.beacons = [];
    if (progress) {
      const { recording, cursor } = progress;
      // A finished pass has no running node.
      const running = isOver(progress) ? null : runningAt(recording, cursor);
      for (const { x, y } of running === null ? [] : placesOf(scene, running)) {
        const ring = svgElement("circle", { class: "gw-beacon-running", r: 9 });
        this.beacons.push({ x, y, far: true, element: ring });
      }
    }
    for (const { x, y, parts } of errorsIn(scene, progress))
      this.beacons.push({ x, y, far: false, element: makePart(part("g", {}, parts)) });
    this.element.replaceChildren(...this.beacons.map(({ element }) => element));
  }

  /** Move the signs to their nodes. */
  place({ k, x, y }: View, far: boolean): void {
    for (const beacon of this.beacons) {
      const { element } = beacon;
      element.setAttribute("transform", `translate(${k * beacon.x + x},${k * beacon.y + y})`);
      element.setAttribute("display", beacon.far && !far ? "none" : "inline");
    }
  }
}

/** The signs of a pass' errors, with their places in the scene. */
export function errorsIn(scene: Scene, progress: Progress | null) {
  return [...(progress?.recording.marks ?? [])].flatMap(([id, marks]) => {
    const kinds = [...new Set(marks.map((mark) => mark.kind))];
    const parts = kinds.map((kind, i) => markPart(kind, i * 30));
    return placesOf(scene, id).map(({ x, y, width, height }) => ({
      ...{ x: x - width / 2, y: y - height / 2, parts },
    }));
  });
}

/** Where a node is seen: itself, its box, or the edge that it is folded into. */
export function placesOf(scene: Scene, id: number) {
  const folded = scene.drawn[id].length === 0 ? foldedAt(scene, id) : null;
  if (folded) return [{ ...folded, width: 0, height: 0 }];
  return scene.drawn[id].map((index) => {
    const { x, y, shape, group } = scene.nodes[index];
    // A closed box has its own sign at the upper left corner.
    return { x, y, width: group ? -shape.width : shape.width, height: shape.height };
  });
}
