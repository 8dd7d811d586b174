import { HEADER, type LensFrame, type SceneFrame, TITLE_LEFT } from "../scene/frame";
import type { Text } from "../scene/node_shape";
import { type Part, part } from "./parts";

/** An open group's border, below everything else. In the scene's coordinates. */
export function frameParts({ left, top, right, bottom, depth, lens }: SceneFrame): Part[] {
  const kind = lens ? "is-lens" : depth % 2 === 0 ? "is-even" : "is-odd";
  const corners = lens?.wedge.map((value, i) => `${i % 2 ? "," : i ? "L" : "M"}${value}`).join("");
  return [
    ...(corners ? [part("path", { class: "gw-wedge", d: `${corners}Z` })] : []),
    part("rect", {
      class: `gw-frame-box ${kind}`,
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
  const { left, top, right, facts, lens } = frame;
  const said = facts.map((text) => textPart("gw-frame-fact", text));
  return [
    part("g", { class: "gw-frame-head" }, [
      part("rect", { x: left, y: top, width: right - left, height: HEADER, rx: 8 }),
      part("g", { transform: `translate(${left},${top})` }, [
        // From afar this group is drawn larger, to stay readable.
        part("g", { class: "gw-frame-title" }, frameTitleParts(frame)),
        ...said,
        ...(lens ? lensParts(lens) : []),
      ]),
    ]),
  ];
}

/** The sign and the title, from the frame's corner. */
export function frameTitleParts({
  title,
  lens,
  isFixed,
}: Pick<SceneFrame, "title" | "lens" | "isFixed">): Part[] {
  const [x, y] = lens ? [LENS_LEFT, 22] : [isFixed ? FIXED_LEFT : TITLE_LEFT, 17.5];
  const name = lens ? "gw-text gw-lens-title" : "gw-text";
  const sign = isFixed || lens ? [] : [signPart("gw-frame-sign", 13, 13, "M-3.5,0h7")];
  return [...sign, part("text", { class: name, x, y }, title)];
}

/** The links from a lens to neighbouring blocks, and the sign that closes it. */
function lensParts({ steps, close }: LensFrame): Part[] {
  const signs = steps.map(({ path, text }) =>
    part("g", { class: "gw-lens-step", "data-open": path }, [
      part("title", {}, `Open ${path.replaceAll("/", ".")} instead`),
      part("rect", { x: text.x - 34, y: text.y - 16, width: 40, height: 22, rx: 5 }),
      textPart("", text),
    ]),
  );
  const cross = part("g", { class: "gw-frame-sign gw-lens-close" }, [
    part("title", {}, "Close"),
    part("rect", { x: close.x - 11, y: close.y - 11, width: 22, height: 22, rx: 5 }),
    part("path", { d: `M${close.x - 4.5},${close.y - 4.5}l9,9m0,-9l-9,9` }),
  ]);
  return [...signs, cross];
}

/** The start of titles without a sign, px. */
const LENS_LEFT = 16;
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
