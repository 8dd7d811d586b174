import { select } from "d3-selection";
import { svgElement } from "../ui/dom";
import type { SceneFrame } from "./frame";
import { frameHeadParts, frameParts } from "./frame_parts";
import type { Box } from "./grid";
import { overlap } from "./grid";
import { makePart } from "./parts";
import type { Scene } from "./scene";

/** Frames that are seen smaller than this are left out, px. */
const LEAST_SEEN = 5;
/** Room for a title as large as it is near, px. */
const TITLE_ROOM = { width: 84, height: 30 };

/** The open groups of a scene: borders to be put below everything else, and heads to be put above. */
export class FrameLayer {
  readonly element = svgElement("g", { class: "gw-frames" });
  readonly heads = svgElement("g", { class: "gw-frame-heads" });
  private scene: Scene | null = null;

  /** Draws the frames that reach into `view`, seen at this scale; from afar, the titles that have room. */
  draw(scene: Scene, view: Box, scale: number, far: boolean): void {
    const isNew = scene !== this.scene;
    this.scene = scene;
    const frames = (scene.frames ?? []).filter(
      (frame) => overlap(frame, view) && (frame.right - frame.left) * scale > LEAST_SEEN,
    );
    const layers = [
      [this.element, frames, frameParts],
      [this.heads, far ? innermostWithRoom(frames, scale) : frames, frameHeadParts],
    ] as const;
    for (const [element, shown, partsOf] of layers) {
      if (isNew) element.replaceChildren();
      select(element)
        .selectAll<SVGGElement, SceneFrame>("g.gw-group-frame")
        .data(shown, ({ path }) => path)
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

/** Frames with room for a title; of those in each other the innermost: from afar their titles would overlap. */
function innermostWithRoom(frames: readonly SceneFrame[], scale: number): SceneFrame[] {
  const roomy = frames.filter(
    ({ left, top, right, bottom }) =>
      (right - left) * scale > TITLE_ROOM.width && (bottom - top) * scale > TITLE_ROOM.height,
  );
  const around = new Set<string>();
  for (const { path } of roomy) {
    const parts = path.split("/");
    for (let i = 1; i < parts.length; i++) around.add(parts.slice(0, i).join("/"));
  }
  return roomy.filter(({ path }) => !around.has(path));
}
