import { HEADER, type SceneFrame, TITLE_LEFT } from "./frame";
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
export function frameHeadParts({ left, top, right, title }: SceneFrame): Part[] {
  return [
    part("g", { class: "gw-frame-head" }, [
      part("rect", { x: left, y: top, width: right - left, height: HEADER, rx: 8 }),
      signPart("gw-frame-sign", left + 13, top + 13, "M-3.5,0h7"),
      part("text", { class: "gw-text", x: left + TITLE_LEFT, y: top + 17.5 }, title),
    ]),
  ];
}

/** What tells a closed box from a node, around its centre: sheets behind it, and a sign that it can be opened. */
export function closedParts(width: number, height: number, isRepeat: boolean): Part[] {
  const [x, y] = [-width / 2, -height / 2];
  const sheet = (behind: number) =>
    part("rect", { class: "gw-sheet", x: x + behind, y: y - behind, width, height, rx: 6 });
  return [...(isRepeat ? [sheet(6)] : []), sheet(3)];
}

/** The sign on a closed box, on its left border. */
export function openSign(width: number, flagHeight: number): Part {
  const y = flagHeight / 2;
  const x = -width / 2;
  return signPart("gw-open-sign", x, y, "M-3.5,0h7M0,-3.5v7");
}

/** A small square button. */
function signPart(name: string, x: number, y: number, d: string): Part {
  return part("g", { class: name, transform: `translate(${x},${y})` }, [
    part("rect", { x: -6.5, y: -6.5, width: 13, height: 13, rx: 3 }),
    part("path", { d }),
  ]);
}
