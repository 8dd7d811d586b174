import { runningAt } from "../steps/recording";
import { svgElement } from "../ui/dom";
import type { Marks } from "./marks";
import type { Scene } from "./scene";
import type { View } from "./views";

interface Beacon {
  x: number;
  y: number;
  /** Seen only while nodes are too small to show it themselves. */
  far: boolean;
  element: SVGElement;
}

/** Signs that keep their size at every zoom: where something went wrong and, from afar, what runs. */
export class Beacons {
  readonly element = svgElement("g", { class: "gw-beacons" });
  private beacons: Beacon[] = [];

  /** Makes the signs for these marks. */
  show(scene: Scene, { progress }: Marks): void {
    this.beacons = [];
    if (progress) {
      const { recording, cursor } = progress;
      const running = runningAt(recording, cursor);
      for (const index of running === null ? [] : scene.drawn[running]) {
        const { x, y } = scene.nodes[index];
        const ring = svgElement("circle", { class: "gw-beacon-running", r: 9 });
        this.beacons.push({ x, y, far: true, element: ring });
      }
      for (const [id, marks] of recording.marks) {
        for (const index of scene.drawn[id]) {
          const { x, y, shape } = scene.nodes[index];
          const kinds = [...new Set(marks.map((mark) => mark.kind))];
          this.beacons.push({
            x: x - shape.width / 2,
            y: y - shape.height / 2,
            far: false,
            element: svgElement("g", {}, ...kinds.map((kind, i) => markSign(kind, i * 30))),
          });
        }
      }
    }
    this.element.replaceChildren(...this.beacons.map(({ element }) => element));
  }

  /** Moves the signs to where their nodes are seen. */
  place({ k, x, y }: View, far: boolean): void {
    for (const beacon of this.beacons) {
      const { element } = beacon;
      element.setAttribute("transform", `translate(${k * beacon.x + x},${k * beacon.y + y})`);
      element.setAttribute("display", beacon.far && !far ? "none" : "inline");
    }
  }
}

/** A tag that says "NaN" or "!". */
export function markSign(kind: "error" | "nan", x = 0): SVGElement {
  const text = svgElement("text", { x, y: 3.6 });
  text.textContent = kind === "nan" ? "NaN" : "!";
  const width = kind === "nan" ? 28 : 16;
  return svgElement(
    "g",
    { class: `gw-mark gw-mark-${kind}` },
    svgElement("rect", { x: x - width / 2, y: -8, width, height: 16, rx: kind === "nan" ? 3 : 8 }),
    text,
  );
}
