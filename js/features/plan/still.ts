import { FOOTERS } from "../../export/picture";
import { part } from "../../paint/parts";
import type { Measure } from "../../text/measure";
import { formatBytes } from "../../text/number";
import { shortenMiddle } from "../../text/shorten";
import type { PlanModel } from "../../wire";
import { areaOf, phasesOf } from "./curve";

/** Space at the sides, px. */
const SIDE = 20;
const CURVE = 56;
/** One line of text. */
const LINE = 18;

FOOTERS.push(({ plan }, box, measure) =>
  plan ? curveParts(plan, box, measure) : { parts: [], height: 0 },
);

/** The memory curve with its phases, its peak marked and named below. */
function curveParts(
  plan: PlanModel,
  { x, y, width }: { x: number; y: number; width: number },
  measure: Measure,
) {
  const [wide, top] = [width - 2 * SIDE, LINE];
  const { live, peak, words, held } = plan;
  const at = (point: number) => (wide * point) / live.length;
  const marked = at(peak + 0.5);
  const text = (words: string, left: number, line: number) => {
    const shown = shortenMiddle(words, wide - left, (part) => measure(part, "cell"));
    return part("text", { class: "gw-key-text", x: left, y: line }, shown);
  };
  const phases = phasesOf(plan).filter(({ count }) => count > 0);
  const splits = phases.slice(1).map(({ start }) => `M${at(start)} ${top}v${CURVE}`);
  const parts = [
    ...phases
      .filter(({ name, count }) => measure(name, "cell") < at(count))
      .map(({ name, start }) => text(name, at(start), top - 5)),
    part("path", {
      class: "gw-curve-area",
      d: areaOf(plan, wide, CURVE),
      transform: `translate(0,${top})`,
    }),
    part("path", { class: "gw-curve-split", d: splits.join("") }),
    part("path", { class: "gw-curve-marker", d: `M${marked} ${top}v${CURVE}` }),
    part("circle", { class: "gw-curve-peak", cx: marked, cy: top, r: 4 }),
    text(`${formatBytes(live[peak])}, the peak: ${words[peak]}`, 0, top + CURVE + LINE),
    text(`Holds ${held[peak]}`, 0, top + CURVE + 2 * LINE),
  ];
  const moved = { class: "gw-curve", transform: `translate(${x + SIDE},${y})` };
  return { parts: [part("g", moved, parts)], height: top + CURVE + 2 * LINE + 14 };
}
