import type { GroupTree } from "../fold/tree";
import { edgesOf, membersOf } from "../scene/members";
import type { Scene, SceneNode } from "../scene/scene";
import { formatBytes, formatNumber, normText } from "../text/number";
import type { MemoryModel } from "../wire";
import { type Dtypes, dtypeClass, dtypeEntries, dtypeWords, MIXED } from "./dtypes";
import type { GradientNorms } from "./gradient_norms";
import { moduleColours } from "./modules";
import { type LogScale, logScale, placeOn, stepOn, ticksOn } from "./scale";
import type { TileGrads } from "./tile_grads";

export type ColourBy = "none" | "parameters" | "gradient" | "memory" | "dtype" | "module";

/** The data that colours can show, as far as it is known. */
export interface ColourSources {
  /** Gradients of the parameters in closed boxes. */
  tiles: TileGrads | null;
  norms: GradientNorms | null;
  memory: MemoryModel | null;
  dtypes: Dtypes | null;
  tree: GroupTree | null;
}

/** The legend of the colours. */
export interface ColourLegend {
  title: string;
  /** Whether the title is written beside it. */
  isNamed?: boolean;
  /** The values of a scale and their positions, 0 to 1; null for categories. */
  ticks: { at: number; text: string }[] | null;
  /** Colours with their own meaning: categories, and values outside the scale. */
  entries: { name: string; text: string }[];
}

interface Colouring {
  /** The class of each drawn node and edge, and the words for a node's colour. */
  tint: { nodes: string[]; edges: string[]; words(node: SceneNode): string | null } | null;
  legend: ColourLegend | null;
}

export const NOTHING = "is-c-none";
export const ZERO = "is-c-zero";
export const NOT_FINITE = "is-c-alarm";

/** Whether data for this colouring exists. */
export function isKnown(
  by: ColourBy,
  { tiles, norms, memory, dtypes, tree }: ColourSources,
): boolean {
  if (by === "parameters") return tiles !== null && tiles.tiles.size > 0;
  if (by === "gradient") return norms !== null;
  if (by === "memory") return memory !== null && memory.nodes.length > 0;
  if (by === "dtype") return dtypes !== null;
  return by === "none" || (tree !== null && tree.path.length > 1);
}

export function colouringOf(by: ColourBy, scene: Scene, sources: ColourSources): Colouring {
  const { tiles, norms, memory, dtypes, tree } = sources;
  if (by === "parameters" && tiles) return { tint: null, legend: tilesLegend(tiles) };
  if (by === "gradient" && norms) return byGradient(scene, norms);
  if (by === "memory" && memory) return byMemory(scene, memory);
  if (by === "dtype" && dtypes) return byDtype(scene, dtypes);
  if (by === "module" && tree && tree.path.length > 1) return byModule(scene, tree);
  return { tint: null, legend: null };
}

/** The problem with a drawn node's gradients: NaN or Inf in one of them, or all of them zero; null if neither. */
export function alarmOf(node: SceneNode, { nodes }: GradientNorms): "NaN" | "0" | null {
  const norms = membersOf(node)
    .map((id) => nodes[id])
    .filter((norm) => !Number.isNaN(norm));
  if (norms.includes(Number.POSITIVE_INFINITY)) return "NaN";
  return norms.length > 0 && norms.every((norm) => norm === 0) ? "0" : null;
}

function byGradient(scene: Scene, norms: GradientNorms): Colouring {
  const scale = logScale([...norms.nodes, ...norms.edges]);
  const name = (values: readonly number[]) => nameOf(values, scale);
  const nodes = scene.nodes.map((node) => name(membersOf(node).map((id) => norms.nodes[id])));
  const edges = scene.edges.map((edge) => name(edgesOf(edge).map((e) => norms.edges[e])));
  const entries = [
    { name: ZERO, text: "all zeros" },
    { name: NOT_FINITE, text: "NaN or Inf" },
    { name: NOTHING, text: "no gradient" },
  ].filter(({ name }) => nodes.includes(name) || edges.includes(name));
  const ticks = logTicks(scale);
  return {
    tint: { nodes, edges, words: (node) => normWords(node, norms) },
    legend: { title: "norm of the gradient that arrives; of a box, the largest", ticks, entries },
  };
}

/** The legend of the closed boxes, which have their own scale. */
export function tilesLegend({ tiles, scale }: TileGrads): ColourLegend | null {
  if (tiles.size === 0) return null;
  const tints = new Set(Array.from(tiles.values(), ({ tint }) => tint));
  const entries = [
    { name: ZERO, text: "all zeros" },
    { name: NOT_FINITE, text: "NaN or Inf" },
  ].filter(({ name }) => tints.has(name));
  const title = "\u2016grad\u2016 of the parameters";
  return { title, isNamed: true, ticks: logTicks(scale, normText), entries };
}

/** The values to write beside a scale. */
export function logTicks(scale: LogScale | null, write = short): { at: number; text: string }[] {
  if (!scale) return [];
  const isPower = (value: number) => Math.abs(Math.log10(value) % 1) < 1e-9;
  return ticksOn(scale, 10).map((value) => ({
    at: placeOn(scale, value),
    text: isPower(value) ? short(value) : write(value),
  }));
}

/** The norm of the gradient that arrives at a node, or the range of them inside a box. */
function normWords(node: SceneNode, { nodes }: GradientNorms): string | null {
  const known = membersOf(node)
    .map((id) => nodes[id])
    .filter((norm) => !Number.isNaN(norm));
  if (known.length === 0) return null;
  const [least, most] = known.reduce(
    ([low, high], norm) => [Math.min(low, norm), Math.max(high, norm)],
    [Number.POSITIVE_INFINITY, 0],
  );
  const write = (norm: number) => (Number.isFinite(norm) ? formatNumber(norm) : "NaN or Inf");
  if (known.length === 1) return `gradient norm ${write(most)}`;
  return `gradient norms from ${write(least)} to ${write(most)}`;
}

/** Name the colour of the largest norm; NaN and Inf come first. */
function nameOf(values: readonly number[], scale: LogScale | null): string {
  let largest = -1;
  for (const value of values) if (value > largest) largest = value;
  if (largest === Number.POSITIVE_INFINITY) return NOT_FINITE;
  if (largest > 0 && scale) return `is-c${stepOn(scale, largest)}`;
  return largest === 0 ? ZERO : NOTHING;
}

function byMemory(scene: Scene, { nodes, bytes, total }: MemoryModel): Colouring {
  const held = new Map(nodes.map((id, i) => [id, bytes[i]]));
  const sums = scene.nodes.map((node) =>
    membersOf(node).reduce((sum, id) => sum + (held.get(id) ?? 0), 0),
  );
  const scale = logScale(sums);
  const ticks = scale
    ? ticksOn(scale, 1024).map((value) => ({ at: placeOn(scale, value), text: formatBytes(value) }))
    : [];
  return {
    tint: {
      nodes: sums.map((sum) => (scale && sum > 0 ? `is-c${stepOn(scale, sum)}` : NOTHING)),
      edges: scene.edges.map(() => ""),
      words: ({ index }) => `holds ${formatBytes(sums[index])} for backward`,
    },
    legend: {
      title: `memory held for backward, ${formatBytes(total)} in all`,
      ticks,
      entries: [{ name: NOTHING, text: "none" }],
    },
  };
}

function byDtype(scene: Scene, dtypes: Dtypes): Colouring {
  const nodes = scene.nodes.map((node) => dtypeClass(node, dtypes));
  const entries = dtypeEntries(dtypes);
  if (nodes.includes(MIXED)) entries.push({ name: MIXED, text: "several in one box" });
  return {
    tint: { nodes, edges: scene.edges.map(() => ""), words: (node) => dtypeWords(node, dtypes) },
    legend: { title: "dtype", ticks: null, entries },
  };
}

function byModule(scene: Scene, tree: GroupTree): Colouring {
  const { nameOf, entries } = moduleColours(tree);
  return {
    tint: {
      nodes: scene.nodes.map(({ id }) => nameOf(id)),
      edges: scene.edges.map(() => ""),
      words: () => null,
    },
    legend: { title: "module", ticks: null, entries },
  };
}

/** Write powers of ten as such, other values with a few digits. */
function short(value: number): string {
  const power = Math.log10(value);
  if (Math.abs(power - Math.round(power)) > 1e-9) return formatNumber(value);
  return power >= -2 && power <= 3
    ? String(Number(value.toPrecision(3)))
    : `1e${Math.round(power)}`;
}
