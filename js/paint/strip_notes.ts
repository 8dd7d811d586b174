import { listsBy } from "../maps";
import { TEXT_HEIGHT, TEXT_PAD } from "../scene/obstacles";
import type { Scene } from "../scene/scene";
import type { Measure } from "../text/measure";
import type { GradientLabel } from "./gradient_label";
import type { Marks } from "./marks";
import { tileAt } from "./tiles";

/** Why the bars of a strip have no heights, and what to do; the longest that fits. */
const TEXTS = [
  "no pass recorded: make the widget before backward()",
  "make the widget before backward()",
  "no pass recorded",
];

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
    const text = TEXTS.find((one) => widthOf(one) <= right - left);
    if (text === undefined) continue;
    const place = { x: (left + right) / 2, y: (first + last) / 2 };
    notes.push({
      ...{ ...place, width: widthOf(text), height: TEXT_HEIGHT + 4 },
      ...{
        key: `note ${strip}`,
        text,
        note: true,
        alarming: false,
        edge: null,
        nodes: [],
        from: 0,
      },
    });
  }
  return notes;
}
