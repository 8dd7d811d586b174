import { HEADER, type SceneFrame, TITLE_LEFT } from "../scene/frame";
import type { Text } from "../scene/node_shape";
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

/** An open group's head, above the lines: the sign that closes it, the title and the facts. */
export function frameHeadParts(frame: SceneFrame): Part[] {
  const { left, top, right, facts } = frame;
  const factTexts = facts.map((text) => textPart("gw-frame-fact", text));
  return [
    part("g", { class: "gw-frame-head" }, [
      part("rect", { x: left, y: top, width: right - left, height: HEADER, rx: 8 }),
      part("g", { transform: `translate(${left},${top})` }, [
        // From afar this group is drawn larger, to stay readable.
        part("g", { class: "gw-frame-title" }, frameTitleParts(frame)),
        ...factTexts,
      ]),
    ]),
  ];
}

/** The sign and the title, from the frame's corner. */
export function frameTitleParts({ title, isFixed }: Pick<SceneFrame, "title" | "isFixed">): Part[] {
  const sign = isFixed ? [] : [signPart("gw-frame-sign", 13, 13, "M-3.5,0h7")];
  const x = isFixed ? FIXED_LEFT : TITLE_LEFT;
  return [...sign, part("text", { class: "gw-text", x, y: 17.5 }, title)];
}

/** The start of titles without a sign, px. */
const FIXED_LEFT = 12;

function textPart(name: string, { text, style, x, y, anchor }: Text): Part {
  return part("text", { class: `${name} gw-text-${style}`, "text-anchor": anchor, x, y }, text);
}

/** A closed box' second sheet and its sign, around its centre. */
export function closedParts(width: number, height: number): Part[] {
  const [x, y] = [3 - width / 2, -3 - height / 2];
  return [part("rect", { class: "gw-sheet", x, y, width, height, rx: 6 })];
}

/** The sign that opens a closed box, on its upper left corner: lines arrive at the middle of a side. */
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
