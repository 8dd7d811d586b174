import { select } from "d3-selection";
import { svgElement } from "../ui/dom";
import type { SceneFrame } from "./frame";
import { frameHeadParts, frameParts } from "./frame_parts";
import type { Box } from "./grid";
import { overlap } from "./grid";
import { makePart } from "./parts";
import type { Scene } from "./scene";

/** The open groups of a scene: borders to be put below everything else, and heads to be put above. */
export class FrameLayer {
  readonly element = svgElement("g", { class: "gw-frames" });
  readonly heads = svgElement("g", { class: "gw-frame-heads" });
  private scene: Scene | null = null;

  /** Draws the frames that reach into `view`. */
  draw(scene: Scene, view: Box): void {
    const isNew = scene !== this.scene;
    this.scene = scene;
    const frames = (scene.frames ?? []).filter((frame) => overlap(frame, view));
    const layers = [
      [this.element, frameParts],
      [this.heads, frameHeadParts],
    ] as const;
    for (const [element, partsOf] of layers) {
      if (isNew) element.replaceChildren();
      select(element)
        .selectAll<SVGGElement, SceneFrame>("g.gw-group-frame")
        .data(frames, ({ path }) => path)
        .join((enter) =>
          enter
            .append("g")
            .attr("class", "gw-group-frame")
            .attr("data-path", ({ path }) => path)
            .each(function (frame) {
              this.append(...partsOf(frame).map(makePart));
            }),
        )
        .order();
    }
  }
}
