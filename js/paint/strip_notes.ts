import { listsBy } from "../maps";
import { isStep } from "../scene/module_class";
import { TEXT_HEIGHT, TEXT_PAD } from "../scene/obstacles";
import type { Scene } from "../scene/scene";
import type { Measure } from "../text/measure";
import type { GradientLabel } from "./gradient_label";
import type { Marks } from "./marks";
import { tileAt } from "./tiles";

/** Why the bars of a strip have no heights, and what to do: the longest line that fits. */
const TEXTS = ["no pass recorded: make the widget before backward()", "no pass recorded"];
/** From the middle of the line down to the tops of the bars, px: it is where their numbers would be. */
const ABOVE = 10;

/** The words above the steps of a loop, if a pass ran that no widget recorded. */
export function stripNotes({ nodes }: Scene, marks: Marks, measure: Measure): GradientLabel[] {
  if (marks.progress || !(marks.ran || marks.held.size > 0)) return [];
  const notes: GradientLabel[] = [];
  for (const [strip, bars] of listsBy(nodes, ({ bar }) => bar?.strip)) {
    if (!isStep(bars[0].group?.paths[0] ?? "") || bars.some((bar) => tileAt(bar, marks))) continue;
    const sides = bars.flatMap(({ x, shape }) => [x - shape.width / 2, x + shape.width / 2]);
    const [left, right] = [Math.min(...sides), Math.max(...sides)];
    const widthOf = (text: string) => measure(text, "cell") + 2 * TEXT_PAD;
    const text = TEXTS.find((one) => widthOf(one) <= right - left);
    if (text === undefined) continue;
    const [first, last] = [bars[0], bars[bars.length - 1]];
    const top = first.y - first.shape.height / 2;
    const y = first.bar?.above ? top - ABOVE : (first.y + last.y) / 2;
    notes.push({
      ...{ x: (left + right) / 2, y, width: widthOf(text), height: TEXT_HEIGHT },
      ...{ key: `note ${strip}`, text, note: true, alarming: false, edge: null },
      ...{ nodes: [], from: 0 },
    });
  }
  return notes;
}
