import type { Channel } from "../channel";
import type { GroupTree } from "../fold/tree";
import type { TileGrad } from "../paint/marks";
import { edgesOf, membersOf } from "../scene/members";
import { classOf } from "../scene/module_class";
import type { Scene, SceneNode } from "../scene/scene";
import { formatBytes, formatNumber, normText } from "../text/number";
import type { DtypesModel, GraphModel, MemoryModel } from "../wire";
import { amountsIn } from "./amounts";
import { barsOfAmounts } from "./bars";
import type { GradientNorms } from "./norms";
import { gradientScale, type LogScale, logScale, placeOn, STEPS, stepOn, ticksOn } from "./scale";
import type { TileGrads } from "./tile_grads";

export const NOTHING = "is-c-none";
export const ZERO = "is-c-zero";
/** The legend's word for gradients that are exactly zero. */
export const ALL_ZEROS = "all zeros";
export const NOT_FINITE = "is-c-alarm";

/** The data that colours can show, as far as it is known. */
export interface ColourSources extends Pick<Channel, "get"> {
  graph: GraphModel | null;
  /** Gradients of the parameters in closed boxes. */
  tiles: TileGrads | null;
  norms: GradientNorms | null;
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

/** A legend without a scale if all values are the same: with that value and its colour instead. */
export function withoutScaleOfOne(legend: ColourLegend): ColourLegend {
  const { ticks, entries } = legend;
  if (ticks?.length !== 1) return legend;
  const [{ at, text }] = ticks;
  const name = `is-c${Math.min(STEPS - 1, Math.floor(at * STEPS))}`;
  return { ...legend, ticks: null, entries: [{ name, text }, ...entries] };
}

export interface Colouring {
  /** The class of each drawn node and edge, and the words for a node's colour. */
  tint: { nodes: string[]; edges: string[]; words(node: SceneNode): string | null } | null;
  legend: ColourLegend | null;
  /** The fills of the bars of strips, where they show this and not gradients. */
  bars?: ReadonlyMap<number, TileGrad>;
}

/** A meaning of the nodes' colours, and the data that it shows. */
export interface ColourMode {
  /** Its value in the choice, and its text there. */
  name: string;
  text: string;
  /** Why it cannot be chosen while nothing is known. */
  missing: string;
  /** Its data; null while it is not known. The same object means the same colours. */
  known(sources: ColourSources): object | null;
  colour(scene: Scene, known: object, tree: GroupTree | null): Colouring;
}

export const PLAIN: Colouring = { tint: null, legend: null };

/** All meanings that any graph may have, in the order of the choice. */
export const COLOUR_MODES: ColourMode[] = [
  { name: "none", text: "nothing", missing: "", known: () => PLAIN, colour: () => PLAIN },
  {
    name: "parameters",
    text: "grad of weights",
    missing: "after a backward pass",
    known: ({ tiles }) => (tiles && tiles.tiles.size > 0 ? tiles : null),
    colour: (_, tiles: TileGrads) => ({ tint: null, legend: tilesLegend(tiles) }),
  },
  {
    name: "gradient",
    text: "grad passing",
    missing: "after a backward pass",
    known: ({ norms }) => norms,
    colour: byGradient,
  },
  {
    name: "memory",
    text: "memory",
    missing: "not counted yet",
    known: ({ get }) => oneOf(get("_memory"), ({ nodes }) => nodes.length > 0),
    colour: byMemory,
  },
  {
    name: "dtype",
    text: "dtype",
    missing: "not known",
    known: ({ get }) => get("_dtypes") ?? null,
    colour: byDtype,
  },
  {
    name: "module",
    text: "module",
    missing: "not known",
    known: ({ tree }) => oneOf(tree, ({ path }) => path.length > 1),
    colour: byModule,
  },
  {
    name: "class",
    text: "class",
    missing: "not known",
    known: ({ graph }) => oneOf(graph, ({ modules }) => modules.names.length > 0),
    colour: byClass,
  },
];

function oneOf<T>(given: T | null | undefined, suits: (given: T) => boolean): T | null {
  return given && suits(given) ? given : null;
}

/** The problem with a drawn node's gradients: NaN or Inf in one of them, or all of them zero; null if neither. */
export function alarmOf(node: SceneNode, { nodes }: GradientNorms): "NaN" | "0" | null {
  const norms = membersOf(node)
    .map((id) => nodes[id])
    .filter((norm) => !Number.isNaN(norm));
  if (norms.includes(Number.POSITIVE_INFINITY)) return "NaN";
  return norms.length > 0 && norms.every((norm) => norm === 0) ? "0" : null;
}

/** Colours of the nodes alone. */
export function tintOfNodes(
  { edges }: Scene,
  nodes: string[],
  words: (node: SceneNode) => string | null = () => null,
): NonNullable<Colouring["tint"]> {
  return { nodes, edges: edges.map(() => ""), words };
}

/** The legend's entries for values that are not on a scale, as far as they are drawn. */
export function offScale(tints: readonly string[], zero: string, none?: string) {
  return [
    { name: ZERO, text: zero },
    { name: NOT_FINITE, text: "NaN or Inf" },
    ...(none === undefined ? [] : [{ name: NOTHING, text: none }]),
  ].filter(({ name }) => tints.includes(name));
}

function byGradient(scene: Scene, norms: GradientNorms): Colouring {
  const scale = gradientScale([...norms.nodes, ...norms.edges]);
  const name = (values: readonly number[]) => nameOf(values, scale);
  const nodes = scene.nodes.map((node) => name(membersOf(node).map((id) => norms.nodes[id])));
  const edges = scene.edges.map((edge) => name(edgesOf(edge).map((e) => norms.edges[e])));
  const entries = offScale([...nodes, ...edges], ALL_ZEROS, "no gradient");
  const ticks = logTicks(scale);
  return {
    tint: { nodes, edges, words: (node) => normWords(node, norms) },
    legend: { title: "norm of the gradient that arrives; of a box, the largest", ticks, entries },
  };
}

/** The legend of the closed boxes, which have their own scale. */
export function tilesLegend({ tiles, areHeld, whose, scale }: TileGrads): ColourLegend | null {
  if (tiles.size === 0) return null;
  const tints = Array.from(tiles.values(), ({ tint }) => tint);
  const entries = offScale(tints, ALL_ZEROS);
  const title = `\u2016${areHeld ? ".grad" : "grad"}\u2016 of the ${whose}`;
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

function byMemory(
  scene: Scene,
  { nodes, bytes, total }: MemoryModel,
  tree: GroupTree | null,
): Colouring {
  const held = new Map(nodes.map((id, i) => [id, bytes[i]]));
  const sums = scene.nodes.map((node) =>
    membersOf(node).reduce((sum, id) => sum + (held.get(id) ?? 0), 0),
  );
  const scale = logScale(tree ? amountsIn(tree, held) : sums);
  const ticks = scale
    ? ticksOn(scale, 1024).map((value) => ({ at: placeOn(scale, value), text: formatBytes(value) }))
    : [];
  const tints = sums.map((sum) => (scale && sum > 0 ? `is-c${stepOn(scale, sum)}` : NOTHING));
  return {
    bars: barsOfAmounts(scene, sums, tints, formatBytes),
    tint: tintOfNodes(
      scene,
      tints,
      ({ index }) => `holds ${formatBytes(sums[index])} for backward`,
    ),
    legend: {
      title: `memory held for backward, ${formatBytes(total)} in all`,
      ticks,
      entries: [{ name: NOTHING, text: "none" }],
    },
  };
}

function byDtype(scene: Scene, dtypes: DtypesModel): Colouring {
  const nodes = scene.nodes.map((node) => dtypeClass(node, dtypes));
  const entries = dtypeEntries(dtypes);
  if (nodes.includes(MIXED)) entries.push({ name: MIXED, text: "several in one box" });
  return {
    tint: tintOfNodes(scene, nodes, (node) => dtypeWords(node, dtypes)),
    legend: { title: "dtype", ticks: null, entries },
  };
}

function byModule(scene: Scene, tree: GroupTree): Colouring {
  const { nameOf, entries } = moduleColours(tree);
  return {
    tint: tintOfNodes(
      scene,
      scene.nodes.map(({ id }) => nameOf(id)),
    ),
    legend: { title: "module", ticks: null, entries },
  };
}

/** Colour closed boxes by the classes of their modules, such as Conv2d, in the order of the picture. */
function byClass(scene: Scene, graph: GraphModel): Colouring {
  // Bars are filled with gradients only.
  const classes = scene.nodes.map(({ group, bar }) =>
    group && !bar ? classOf(graph, group.paths[0]) : null,
  );
  const found = [...new Set(classes)].filter((one) => one !== null);
  if (found.length === 0) return PLAIN;
  const nameOf = (one: string) => `is-k${found.indexOf(one) % KINDS}`;
  return {
    tint: tintOfNodes(
      scene,
      classes.map((one) => (one === null ? "" : nameOf(one))),
    ),
    legend: { title: "class", ticks: null, entries: legendOf(found) },
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

/** The number of module colours; their classes are "is-k0" to "is-k7". */
export const KINDS = 8;

/** Colour modules by the first level of the tree that has several. Colours repeat when there are more modules. */
function moduleColours(tree: GroupTree): {
  /** The class of a graph node. */
  nameOf(node: number): string;
  entries: { name: string; text: string }[];
} {
  const level = firstLevelWithSeveral(tree);
  const modules = tree.path.map((_, g) => g).filter((g) => g > 0 && tree.depth[g] === level);
  const number = new Map(modules.map((g, i) => [g, i]));
  return {
    nameOf(node) {
      let g = tree.groupOf[node];
      while (tree.depth[g] > level) g = tree.parent[g];
      const known = number.get(g);
      return known === undefined ? "is-c-none" : `is-k${known % KINDS}`;
    },
    entries: legendOf(modules.map((g) => tree.path[g].replaceAll("/", "."))),
  };
}

/** The entries of categories, whose colours repeat. */
function legendOf(texts: readonly string[]): { name: string; text: string }[] {
  const more = texts.length - KINDS;
  return texts.slice(0, KINDS).map((text, i) => ({
    name: `is-k${i}`,
    text: i === KINDS - 1 && more > 0 ? `${text} and, in turn, ${more} more` : text,
  }));
}

function firstLevelWithSeveral({ depth }: GroupTree): number {
  const sizes: number[] = [];
  for (const d of depth) sizes[d] = (sizes[d] ?? 0) + 1;
  const found = sizes.findIndex((size, d) => d > 0 && size > 1);
  return found < 0 ? 1 : found;
}

/** The class of a box whose nodes differ. */
const MIXED = "is-c-mixed";

/** The class of a drawn node: its dtype's, or the mixed one. */
function dtypeClass(node: SceneNode, { nodes }: DtypesModel): string {
  const met = new Set(membersOf(node).flatMap((id) => nodes[id] ?? []));
  const [only] = met;
  if (met.size > 1) return MIXED;
  return only === undefined ? "is-c-none" : `is-k${only % KINDS}`;
}

/** The dtypes of a drawn node's members; null if none is known. */
function dtypeWords(node: SceneNode, { names, nodes }: DtypesModel): string | null {
  const met = new Set(membersOf(node).map((id) => nodes[id] ?? -1));
  const words = names.filter((_, i) => met.has(i));
  return words.length === 0 ? null : words.join(", ");
}

function dtypeEntries({ names }: DtypesModel): { name: string; text: string }[] {
  return names.slice(0, KINDS).map((text, i) => ({ name: `is-k${i}`, text }));
}
