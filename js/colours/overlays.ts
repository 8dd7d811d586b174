import type { GroupTree } from "../fold/tree";
import { membersOf } from "../scene/members";
import type { Scene } from "../scene/scene";
import { formatBytes } from "../text/number";
import type { JsonNumber, OverlayModel } from "../wire";
import { amountsIn } from "./amounts";
import { barsOfAmounts } from "./bars";
import {
  type ColourLegend,
  type ColourMode,
  NOT_FINITE,
  NOTHING,
  offScale,
  tintOfNodes,
  ZERO,
} from "./colouring";
import { logScale, placeOn, STEPS, ticksOn } from "./scale";

/** The largest ratio of numbers on a linear scale. */
const FAR_APART = 50;

/** The modes of overlays, in their order. The legend of one that is empty is left out. */
export function overlayModes(overlays: readonly OverlayModel[]): ColourMode[] {
  return overlays.map((overlay) => ({
    name: `overlay ${overlay.label}`,
    text: overlay.label,
    missing: "",
    known: () => overlay,
    colour: (scene, _, tree) => byOverlay(scene, overlay, tree),
  }));
}

/** Colour nodes by numbers: a box by its own, else by the sum or the largest of its nodes'. */
export function byOverlay(scene: Scene, overlay: OverlayModel, tree: GroupTree | null = null) {
  const { label, unit, adds_up } = overlay;
  const numbers = numbersOf(scene, overlay);
  const shown = numbers.filter((one): one is number => one !== null);
  const scale = scaleOf(tree ? numbersIn(tree, overlay) : shown);
  const tints = numbers.map((number) => (number === null ? NOTHING : scale.nameOf(number)));
  const write = (number: number) => withUnit(number, unit);
  const ends = offScale(tints, write(0), adds_up ? "none" : "no number");
  // A unit without prefixes appears once, in the title.
  const isFree = !PREFIXED.includes(unit);
  const ticks = scale.ticks.map(({ at, value }) => ({
    at,
    text: withUnit(value, isFree ? "" : unit),
  }));
  const total = numbers.reduce((sum: number, one) => sum + (one ?? 0), 0);
  const of = isFree && unit ? `${label} (${unit})` : label;
  const title = adds_up ? `${label}, ${write(total)} in all` : `${of}; of a box, the largest`;
  const legend: ColourLegend = { title, ticks, entries: ends };
  // Heights show amounts; numbers below 0, and NaN, have none.
  const hasHeights = numbers.every((one) => one === null || (one >= 0 && one < Infinity));
  const amounts = numbers.map((one) => (hasHeights ? (one ?? 0) : Number(one !== null)));
  return {
    bars: barsOfAmounts(scene, amounts, tints, write),
    tint: tintOfNodes(scene, tints, ({ index }) => {
      const number = numbers[index];
      return number === null ? null : `${label}: ${write(number)}`;
    }),
    legend: adds_up ? legend : { ...legend, isNamed: true },
  };
}

/** The numbers that some folding shows. */
function numbersIn(tree: GroupTree, { nodes, values, modules, ...overlay }: OverlayModel) {
  const boxes = overlay.module_values.slice(0, modules.length).map(asNumber);
  const own = nodes.map((id, i): [number, number] => [id, asNumber(values[i])]);
  if (!overlay.adds_up) return [...boxes, ...own.map(([, number]) => number)];
  return own.length > 0 ? [...boxes, ...amountsIn(tree, new Map(own))] : boxes;
}

/** The number of each drawn node; null without one. */
function numbersOf({ nodes }: Scene, overlay: OverlayModel): (number | null)[] {
  const own = new Map(overlay.nodes.map((id, i) => [id, asNumber(overlay.values[i])]));
  const boxes = new Map(
    overlay.modules.map((path, i) => [path, asNumber(overlay.module_values[i])]),
  );
  return nodes.map((node) => {
    const path = node.group?.paths.find((each) => boxes.has(each));
    if (path !== undefined) return boxes.get(path) ?? null;
    const inside = membersOf(node).flatMap((id) => own.get(id) ?? []);
    if (inside.length === 0) return null;
    if (overlay.adds_up) return inside.reduce((sum, one) => sum + one, 0);
    return inside.reduce((most, one) => (one > most || Number.isNaN(one) ? one : most));
  });
}

function asNumber(value: JsonNumber): number {
  const words: Record<string, number> = { nan: Number.NaN, inf: Infinity, "-inf": -Infinity };
  return typeof value === "number" ? value : (words[value] ?? Number(value));
}

/** A scale over numbers: logarithmic if all are positive and far apart, else linear. */
function scaleOf(numbers: readonly number[]) {
  const finite = numbers.filter(Number.isFinite);
  const log = finite.every((one) => one >= 0) ? logScale(finite) : null;
  const isLog = log !== null && log.most > FAR_APART * log.least;
  const [least, most] = finite.reduce(
    ([low, high], one) => [Math.min(low, one), Math.max(high, one)],
    [Infinity, -Infinity],
  );
  const place = (number: number) => {
    if (isLog) return placeOn(log, number);
    const share = most > least ? (number - least) / (most - least) : 0.5;
    return Math.max(0, Math.min(1, share));
  };
  const values = isLog ? ticksOn(log, 10) : finite.length > 0 ? evenly(least, most) : [];
  return {
    ticks: values.map((value) => ({ at: place(value), value })),
    nameOf(number: number) {
      if (!Number.isFinite(number)) return NOT_FINITE;
      if (isLog && number === 0) return ZERO;
      return `is-c${Math.min(STEPS - 1, Math.floor(place(number) * STEPS))}`;
    },
  };
}

/** Three to five round numbers from the least to the most; both ends where they are too near to each other. */
function evenly(least: number, most: number): number[] {
  if (least === most) return [least];
  const rough = (most - least) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([5, 2, 1].find((each) => each * power <= rough) ?? 1);
  const first = Math.ceil(least / step - 1e-9);
  const last = Math.floor(most / step + 1e-9);
  const count = last - first + 1;
  if (!(count > 1 && count < 9)) return [least, most];
  return Array.from({ length: count }, (_, i) => (first + i) * step).filter(
    (_, i) => count <= 5 || i % 2 === 0,
  );
}

/** Units that are written with prefixes. */
const PREFIXED = ["s", "FLOP", "B"];
const LARGE = ["", "k", "M", "G", "T", "P", "E"];
const SMALL = ["", "m", "\u00b5", "n", "p"];

/** A number in three digits with its unit: "1.31 PFLOP", "2 ms", "3 MiB", "0.7". */
export function withUnit(number: number, unit: string): string {
  if (unit === "B") return formatBytes(number);
  const size = Math.abs(number);
  if (!PREFIXED.includes(unit) || !Number.isFinite(number) || size === 0)
    return `${Number(number.toPrecision(3))}${unit && ` ${unit}`}`;
  const power = Math.floor(Math.log10(Number(size.toPrecision(3))) / 3);
  const at = Math.max(
    unit === "s" ? 1 - SMALL.length : 0,
    Math.min(unit === "s" ? 0 : LARGE.length - 1, power),
  );
  const prefix = at < 0 ? SMALL[-at] : LARGE[at];
  return `${Number((number / 1000 ** at).toPrecision(3))} ${prefix}${unit}`;
}
