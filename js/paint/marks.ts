import type { SceneNode } from "../scene/scene";
import type { Progress } from "../steps/recording";
import type { FewModel, StateModel } from "../wire";

/** What is marked in the drawing at one moment. Node ids, except where it says otherwise. */
export interface Marks {
  /** Whether a backward pass was seen. */
  ran: boolean;
  reached: ReadonlySet<number>;
  /** Places of edges. */
  flowed: ReadonlySet<number>;
  freed: ReadonlySet<number>;
  /** What leaves hold in `.grad` while no pass is shown. */
  held: ReadonlyMap<number, FewModel>;
  /** Where stepping through backward has got; it then says more than what was reached and flowed. */
  progress: Progress | null;
  selected: number | null;
  /** Path of the selected module. */
  module: readonly string[] | null;
  hovered: number | null;
  focused: number | null;
  /** What a search found; null when nothing is searched. */
  hits: ReadonlySet<number> | null;
  hit: number | null;
  /** Classes that colour the drawn nodes and edges, by their indices; null for no colours. */
  tint: {
    nodes: readonly string[];
    edges: readonly string[];
    /** What the colour of a node says. */
    words(node: SceneNode): string | null;
  } | null;
  /** Whether the local derivative is written on every edge. */
  derivatives: boolean;
  /** By the index of a closed box, what arrived at its parameters. */
  tiles: ReadonlyMap<number, TileGrad> | null;
  /** By the index of a drawn node, its gradient on the ranks of a run. */
  ranks: ReadonlyMap<number, RankStrip> | null;
  /** By the index of a drawn node, what is wrong with its gradients in a word, "NaN" or "0". */
  alarms: ReadonlyMap<number, string> | null;
}

/** The gradient of the parameters in a closed box, or in a block of a strip. */
export interface TileGrad {
  /** Its norm as text; "" where it does not fit. */
  text: string;
  /** The class of its colour; "" for none. */
  tint: string;
  /** Of a block, how far its bar is filled, 0 to 1. */
  share?: number;
  /** How many steps have to run before all of it is there. */
  from: number;
  /** All of this in words. */
  words: string;
}

/** What arrives at a node over the ranks of a run. */
export interface RankStrip {
  bars: readonly RankBar[];
  /** How many steps have to run before all of it is there. */
  from: number;
  /** All of this in words. */
  words: string;
}

/** One rank in it, or several. */
interface RankBar {
  /** How high its least norm is, and its largest, 0 to 1; null where it has none. */
  least: number | null;
  most: number | null;
  /** Whether it has a NaN or an infinity, and a rank without gradient. */
  isNotFinite: boolean;
  isWithout: boolean;
  /** Whether one of its ranks is not as most are, and whether one is shown. */
  isOdd: boolean;
  isShown: boolean;
}

/** What has been seen of backward, as it is marked. */
export function seenMarks(
  state: StateModel | null | undefined,
): Pick<Marks, "ran" | "reached" | "flowed" | "freed" | "held"> {
  return {
    ran: (state?.runs ?? 0) > 0,
    reached: new Set(state?.reached ?? []),
    flowed: new Set(state?.flowed ?? []),
    freed: new Set(state?.freed ?? []),
    held: new Map((state?.held ?? []).map((one) => [one.node, one])),
  };
}

export const NO_MARKS: Marks = {
  ran: false,
  reached: new Set(),
  flowed: new Set(),
  freed: new Set(),
  held: new Map(),
  progress: null,
  selected: null,
  module: null,
  hovered: null,
  focused: null,
  hits: null,
  hit: null,
  tint: null,
  derivatives: false,
  tiles: null,
  ranks: null,
  alarms: null,
};
