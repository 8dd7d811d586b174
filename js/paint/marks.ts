import type { SceneNode } from "../scene/scene";
import type { Progress } from "../steps/recording";
import type { FewModel, NodeModel, StateModel } from "../wire";

/** The marks in the drawing. Node ids, unless stated otherwise. */
export interface Marks {
  /** Whether a backward pass was seen. */
  ran: boolean;
  reached: ReadonlySet<number>;
  /** Indices of edges. */
  flowed: ReadonlySet<number>;
  freed: ReadonlySet<number>;
  /** Whether only some of the nodes of a class are freed: where all are, a badge on each says nothing. */
  isPartlyFreed: boolean;
  /** The leaves' `.grad` while no pass is shown. */
  held: ReadonlyMap<number, FewModel>;
  /** The position in the pass; more precise than `reached` and `flowed`. */
  progress: Progress | null;
  selected: number | null;
  /** Path of the selected module. */
  module: readonly string[] | null;
  hovered: number | null;
  focused: number | null;
  /** The search results; null without a search. */
  hits: ReadonlySet<number> | null;
  hit: number | null;
  /** Classes that colour the drawn nodes and edges, by their indices; null for no colours. */
  tint: {
    nodes: readonly string[];
    edges: readonly string[];
    /** The words for a node's colour. */
    words(node: SceneNode): string | null;
  } | null;
  /** The widths of lines by the norms of their gradients; null for lines that are as wide as any. */
  widths: Widths | null;
  /** Whether local derivatives are on all edges. */
  derivatives: boolean;
  /** Per closed box, by its index, its parameters' gradient. */
  tiles: ReadonlyMap<number, TileGrad> | null;
  /** Per drawn node, by its index, its gradient on all ranks. */
  ranks: ReadonlyMap<number, RankStrip> | null;
  /** Per drawn node, by its index, the problem of its gradients: "NaN" or "0". */
  alarms: ReadonlyMap<number, string> | null;
}

/** The widths of lines. */
export interface Widths {
  /** Per drawn edge, by its index, the class of its width; "" for an unknown norm. */
  edges: readonly string[];
  /** The thinnest and the thickest class, and their norms in words. */
  ends: readonly { name: string; text: string }[];
}

/** The gradient of the parameters in a closed box, or in a block of a strip. */
export interface TileGrad {
  /** Its norm as text; "" if it does not fit. */
  text: string;
  /** The class of its colour; "" for none. */
  tint: string;
  /** For a block, the filled share of its bar, 0 to 1. */
  share?: number;
  /** The number of steps after which it is complete. */
  from: number;
  /** All of this in words. */
  words: string;
}

/** A node's gradients on all ranks. */
export interface RankStrip {
  bars: readonly RankBar[];
  /** The number of steps after which it is complete. */
  from: number;
  /** All of this in words. */
  words: string;
}

/** One rank, or several. */
interface RankBar {
  /** The least and largest norm as heights, 0 to 1; null for none. */
  least: number | null;
  most: number | null;
  /** Whether it contains NaN or infinity, and a rank without gradient. */
  isNotFinite: boolean;
  isWithout: boolean;
  /** Whether one of its ranks is an outlier, and whether one is shown. */
  isOdd: boolean;
  isShown: boolean;
}

/** The marks of the observed backward pass. */
export function seenMarks(
  state: StateModel | null | undefined,
  nodes: readonly Pick<NodeModel, "op">[],
): Pick<Marks, "ran" | "reached" | "flowed" | "freed" | "isPartlyFreed" | "held"> {
  const freed = new Set(state?.freed ?? []);
  const ops = new Set(Array.from(freed, (id) => nodes[id]?.op));
  return {
    ran: (state?.runs ?? 0) > 0,
    reached: new Set(state?.reached ?? []),
    flowed: new Set(state?.flowed ?? []),
    freed,
    isPartlyFreed: nodes.some(({ op }, id) => ops.has(op) && !freed.has(id)),
    held: new Map((state?.held ?? []).map((one) => [one.node, one])),
  };
}

export const NO_MARKS: Marks = {
  ran: false,
  reached: new Set(),
  flowed: new Set(),
  freed: new Set(),
  isPartlyFreed: false,
  held: new Map(),
  progress: null,
  selected: null,
  module: null,
  hovered: null,
  focused: null,
  hits: null,
  hit: null,
  tint: null,
  widths: null,
  derivatives: false,
  tiles: null,
  ranks: null,
  alarms: null,
};
