import { select } from "d3-selection";
import { svgElement } from "../dom/element";
import { boxOf } from "../scene/find";
import { HEADER, type SceneFrame, TITLE_LEFT } from "../scene/frame";
import { type Box, overlap } from "../scene/grid";
import type { Scene } from "../scene/scene";
import { indexOf } from "../scene/scene_index";
import { shortenMiddle } from "../text/shorten";
import { frameHeadParts, frameParts } from "./frame_parts";
import { titleScale } from "./level_of_detail";
import { makePart } from "./parts";

/** Smaller frames are left out, px. */
const LEAST_SEEN = 5;
/** Titles with less room are left out, px. */
const LEAST_TITLE = { width: 56, height: 22 };
/** The size of a title's character and line at its own scale, px. */
const CHARACTER = 6.9;
const LINE = 15;
/** From a frame's top to its title's foot, px of the title. */
const DESCENT = 21;

/** The open groups of a scene as elements: borders below everything else, and heads above. */
export class FrameLayer {
  readonly element = svgElement("g", "gw-frames");
  readonly heads = svgElement("g", "gw-frame-heads");
  private frames: Scene["frames"] | null = null;

  /** Draw the frames within `view` at this scale, and mark the selected module's. */
  draw(scene: Scene, view: Box, scale: number, module: readonly string[] | null = null): void {
    const isNew = scene.frames !== this.frames;
    this.frames = scene.frames;
    const frames = framesIn(scene, view, scale);
    const layers = [
      [this.element, frames, frameParts],
      [this.heads, titled(scene, frames, scale), frameHeadParts],
    ] as const;
    for (const [element, shown, partsOf] of layers) {
      if (isNew) element.replaceChildren();
      select(element)
        .selectAll<SVGGElement, SceneFrame>("g.gw-group-frame")
        .data(shown, ({ path, title, facts }) => `${path} ${title} ${facts.length}`)
        .join((enter) =>
          enter
            .append("g")
            .attr("class", "gw-group-frame")
            .attr("data-path", ({ path }) => path)
            .each(function (frame) {
              this.append(...partsOf(frame).map(makePart));
            }),
        )
        .classed("is-selected", ({ path }) => module?.[0] === path)
        .order();
    }
  }

  clear(): void {
    this.element.replaceChildren();
    this.heads.replaceChildren();
  }
}

function framesIn({ frames = [] }: Scene, view: Box, scale: number): SceneFrame[] {
  return frames.filter(
    (frame) => overlap(frame, view) && (frame.right - frame.left) * scale > LEAST_SEEN,
  );
}

/** The frames with visible titles, shortened to their room. */
export function headsIn(scene: Scene, view: Box, scale: number): SceneFrame[] {
  return titled(scene, framesIn(scene, view, scale), scale);
}

/** Shorten titles to their room. From afar, those over an outer title or a node are left out. */
function titled(scene: Scene, frames: readonly SceneFrame[], scale: number): SceneFrame[] {
  if (titleScale(scale) === 1) return [...frames];
  const index = indexOf(scene);
  const covers = ({ left, top, right }: Box) => {
    const place = { left, top, right, bottom: top + DESCENT * titleScale(scale) };
    return index.nodesIn(place).some((i) => overlap(boxOf(scene.nodes[i]), place));
  };
  const taken: Box[] = [];
  return frames.flatMap((frame) => {
    const room = frame.right - frame.left;
    const isSmall = room * scale < LEAST_TITLE.width;
    if (isSmall || (frame.bottom - frame.top) * scale < LEAST_TITLE.height) return [];
    // The head's other facts are too small there, except a strip's number of blocks and its missing ranks.
    const count = frame.facts.find(({ text }) => text.startsWith("×"));
    const name = count ? `${frame.title} ${count.text}` : frame.title;
    const whole = frame.says === undefined ? name : `${name} · ${frame.says}`;
    const words = titleRoom(whole, scale) > room ? name : whole;
    const title = shortenMiddle(words, room, (text) => titleRoom(text, scale));
    const place = headBox({ ...frame, title }, scale);
    if (taken.some((other) => overlap(other, place)) || covers(place)) return [];
    taken.push(place);
    return [{ ...frame, title, facts: [] }];
  });
}

/** The place of a frame's head at this scale, in the scene: the whole top near, the text from afar. */
export function headBox(frame: SceneFrame, scale: number): Box {
  const { left, top } = frame;
  const size = titleScale(scale);
  return size === 1
    ? { left, top, right: frame.right, bottom: top + HEADER }
    : { left, top, right: left + titleRoom(frame.title, scale), bottom: top + LINE * size };
}

function titleRoom(title: string, scale: number): number {
  return (TITLE_LEFT + 8 + CHARACTER * title.length) * titleScale(scale);
}
