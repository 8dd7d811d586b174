import { barsOfAmounts } from "../../colours/bars";
import { type ColourLegend, NOTHING } from "../../colours/colouring";
import { logScale, placeOn, stepOn, ticksOn } from "../../colours/scale";
import { membersOf } from "../../scene/members";
import type { Scene } from "../../scene/scene";
import type { PlanModel } from "../../wire";

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** Colour nodes by their planned floating-point operations, boxes by the sum. */
export function byFlops(scene: Scene, { flop_nodes: ids, flops }: PlanModel) {
  const known = new Map(ids.map((id, i) => [id, flops[i]]));
  const sums = scene.nodes.map((node) =>
    membersOf(node).reduce((sum, id) => sum + (known.get(id) ?? 0), 0),
  );
  const scale = logScale(sums);
  const ticks = scale
    ? ticksOn(scale, 10).map((value) => ({
        at: placeOn(scale, value),
        text: formatFlops(value, ""),
      }))
    : [];
  const total = flops.reduce((sum, each) => sum + each, 0);
  const legend: ColourLegend = {
    title: `planned FLOPs of forward and backward, ${formatFlops(total)} in all`,
    ticks,
    entries: [{ name: NOTHING, text: "none" }],
  };
  const tints = sums.map((sum) => (scale && sum > 0 ? `is-c${stepOn(scale, sum)}` : NOTHING));
  return {
    bars: barsOfAmounts(scene, sums, tints, formatFlops),
    tint: {
      nodes: tints,
      edges: scene.edges.map(() => ""),
      words: ({ index }: { index: number }) => `${formatFlops(sums[index])} in this step`,
    },
    legend,
  };
}

/** Write a number of floating-point operations, "1.3 TFLOP". */
export function formatFlops(flops: number, unitName = "FLOP"): string {
  let unit = 0;
  let value = flops;
  while (unit + 1 < PREFIXES.length && value >= 1000) {
    value /= 1000;
    unit++;
  }
  return `${Number(value.toPrecision(3))} ${PREFIXES[unit]}${unitName}`;
}
