import { listsBy } from "../maps";
import { TEXT_HEIGHT, TEXT_PAD } from "../scene/obstacles";
import type { Scene } from "../scene/scene";
import type { Measure } from "../text/measure";
import type { GradientLabel } from "./gradient_label";
import type { Marks } from "./marks";
import { tileAt } from "./tiles";

/** Why the bars of a strip have no heights, and what to do, in one line or more; the fewest that fit. */
const TEXTS = [
  ["no pass recorded: make the widget before backward()"],
  ["no pass recorded: make", "the widget before backward()"],
  ["no pass recorded:", "make the widget", "before backward()"],
];
/** The places of the lines, as shares of a bar's height from its middle; one line is above the arrows. */
const PLACES = [[-0.27], [-0.25, 0.25], [-0.32, 0, 0.32]];

/** The words on strips without bars, if a pass ran that no widget recorded. */
export function stripNotes({ nodes }: Scene, marks: Marks, measure: Measure): GradientLabel[] {
  if (marks.progress || !(marks.ran || marks.held.size > 0)) return [];
  const notes: GradientLabel[] = [];
  for (const [strip, bars] of listsBy(nodes, ({ bar }) => bar?.strip)) {
    if (bars.some((bar) => tileAt(bar, marks))) continue;
    const [left, right] = [
      Math.min(...bars.map(({ x, shape }) => x - shape.width / 2)),
      Math.max(...bars.map(({ x, shape }) => x + shape.width / 2)),
    ];
    const [first, last] = [bars[0].y, bars[bars.length - 1].y];
    const widthOf = (text: string) => measure(text, "gradient") + 2 * TEXT_PAD;
    const lines = TEXTS.find((all) => all.every((text) => widthOf(text) <= right - left));
    lines?.forEach((text, i) => {
      const y = (first + last) / 2 + PLACES[lines.length - 1][i] * bars[0].shape.height;
      notes.push({
        ...{ x: (left + right) / 2, y, width: widthOf(text), height: TEXT_HEIGHT },
        ...{ key: `note ${strip} ${i}`, text, note: true, alarming: false, edge: null },
        ...{ nodes: [], from: 0 },
      });
    });
  }
  return notes;
}
