import { HEADER, type SceneFrame, TITLE_LEFT } from "../scene/frame";
import { type Part, part } from "./parts";

/** An open group's border, below everything else. In the scene's coordinates. */
export function frameParts({ left, top, right, bottom, depth }: SceneFrame): Part[] {
  return [
    part("rect", {
      class: `gw-frame-box ${depth % 2 === 0 ? "is-even" : "is-odd"}`,
      x: left,
      y: top,
      width: right - left,
      height: bottom - top,
      rx: 8,
    }),
  ];
}

/** What closes an open group: a sign and the title, above the lines that run through. */
export function frameHeadParts({ left, top, right, title, facts }: SceneFrame): Part[] {
  const at = { class: "gw-frame-facts", x: right - FACTS_RIGHT, y: top + 17.5 };
  return [
    part("g", { class: "gw-frame-head" }, [
      part("rect", { x: left, y: top, width: right - left, height: HEADER, rx: 8 }),
      ...(facts === null ? [] : [part("text", at, facts)]),
      part("g", { transform: `translate(${left},${top})` }, [
        // From afar this group is drawn larger, so that it can still be read.
        part("g", { class: "gw-frame-title" }, frameTitleParts(title)),
      ]),
    ]),
  ];
}

const FACTS_RIGHT = 10;

/** The sign and the title, from the frame's corner on. */
export function frameTitleParts(title: string): Part[] {
  return [
    signPart("gw-frame-sign", 13, 13, "M-3.5,0h7"),
    part("text", { class: "gw-text", x: TITLE_LEFT, y: 17.5 }, title),
  ];
}

/** What tells a closed box from a node, around its centre: sheets behind it, and a sign that it can be opened. */
export function closedParts(width: number, height: number, isRepeat: boolean): Part[] {
  const [x, y] = [-width / 2, -height / 2];
  const sheet = (behind: number) =>
    part("rect", { class: "gw-sheet", x: x + behind, y: y - behind, width, height, rx: 6 });
  return [...(isRepeat ? [sheet(6)] : []), sheet(3)];
}

/** The sign on a closed box, on its upper left corner: lines arrive at the middle of a side. */
export function openSign(width: number, height: number): Part {
  return signPart("gw-open-sign", 2 - width / 2, 2 - height / 2, "M-3.5,0h7M0,-3.5v7");
}

/** A small square button. */
function signPart(name: string, x: number, y: number, d: string): Part {
  return part("g", { class: name, transform: `translate(${x},${y})` }, [
    part("rect", { x: -6.5, y: -6.5, width: 13, height: 13, rx: 3 }),
    part("path", { d }),
  ]);
}
