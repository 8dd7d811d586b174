import type { Direction } from "../layout/direction";
import type { EdgeModel, NodeModel } from "../wire";
import type { SceneFrame } from "./frame";
import type { Place } from "./grid";
import type { NodeShape, Text } from "./node_shape";
import type { ClosedGroup } from "./plan";

/** A graph with every place known: plain numbers and strings, for any painter. */
export interface Scene {
  direction: Direction;
  /** Whether data flows along the arrows, instead of gradients. */
  isStatic?: boolean;
  /** Whether its second half goes beside its first, as of a U-Net. */
  inHalves?: boolean;
  width: number;
  height: number;
  nodes: SceneNode[];
  edges: SceneEdge[];
  /** Per node id, the indices of its drawn nodes: itself, then its copies. */
  drawn: number[][];
  /** Open groups, parents first. */
  frames: SceneFrame[];
  /** Others' signs, which no text may cover. */
  signs?: readonly Place[];
  /** From nodes that computed derivatives to their functions' nodes; absent if there are none. */
  links?: readonly SceneLink[];
  /** Per graph edge, its index in `edges`, -1 if it is hidden; absent if they are the same. */
  edgeOf?: Int32Array;
}

export interface SceneNode {
  /** Position in `Scene.nodes`. */
  index: number;
  /** Its graph node; copies of a shared leaf share it. */
  id: number;
  leaf: boolean;
  /** Whether it makes an output. */
  root: boolean;
  /** How often it is drawn. */
  copies: number;
  /** For a copy of a shared leaf, the graph edge of its use; absent for several. */
  use?: number;
  /** Whether another copy of the leaf has the sum of all shares. */
  isCopy?: boolean;
  x: number;
  y: number;
  rank: number;
  shape: NodeShape;
  /** Facts that are read only from close. */
  fine?: Text[];
  /** The kind of a node outside autograd. */
  quiet?: QuietKind;
  /** The rows of a leaf that adds up: the operation of each use. */
  rows?: readonly string[];
  /** Constants in its sign. */
  inSign?: readonly number[];
  /** Graph nodes that are drawn with it: an activation with the sum before it. */
  also?: readonly number[];
  /** The content of a closed box, whose id is its first node's. */
  group?: ClosedGroup;
  /** For a block in a strip, its bar. */
  bar?: Bar;
  /** Its ranks, unless all have it: "only on rank 0". */
  only?: string;
  /** Whether an outer head states them. */
  isStated?: boolean;
}

/** A bar of a strip, filled by the size of its gradient relative to the other bars. */
interface Bar {
  /** Index of the first bar of its strip. */
  strip: number;
  /** The direction in which it fills. */
  grows: "up" | "right";
  /** The room for a number, px along the row. */
  room: number;
  /** Set if numbers are above the bars: which end of its number is at that of its bar. */
  above?: "start" | "middle" | "end";
  /** Whether it runs forward again in backward, or is advised to. */
  isAgain: boolean;
}

/** Kinds of nodes without gradient. */
type QuietKind = Exclude<NodeModel["kind"], "op" | "leaf">;

export interface SceneEdge {
  /** Index in `Scene.edges`, and in the graph's edges unless merged. */
  index: number;
  /** Indices in `Scene.nodes`. */
  source: number;
  target: number;
  /** In a picture with strips, the indices of all bars at its ends; one of each strip is its source or target. */
  bars?: readonly number[];
  /** x, y of the start, then cubic segments of three points each. */
  curve: Float64Array;
  bounds: [number, number, number, number];
  label: EdgeLabel | null;
  /** Its kind, if it has no gradient. */
  quiet?: Exclude<EdgeModel["kind"], "gradient">;
  /** Its graph edges, in a picture with folded groups or plumbing. */
  merged?: MergedEdges;
  /** Whether some ranks lack it. */
  isOnSome?: boolean;
  /** Its row, on a leaf with rows. */
  row?: number;
  /** Whether it runs against the flow, as lines in a cycle of boxes do. */
  backward: boolean;
  /** Its sign, if it is drawn as a portal at each end instead of a line. */
  portal?: PortalSign;
}

/** The sign at both ends of a line that is not drawn. */
export interface PortalSign {
  /** The name of the producer, or a number. */
  text: string;
  width: number;
  /** Whether another line's portal at the producer is drawn in the same place. */
  isKnown?: boolean;
}

/** One node computed the derivative of another node's output. Links are not edges: layout, counts and steps ignore them. */
export interface SceneLink {
  /** Indices in `Scene.nodes`. */
  source: number;
  target: number;
  /** x, y of the start, then one cubic segment. */
  curve: readonly number[];
  label: EdgeLabel | null;
  /** Whether it is drawn only while one end is selected, because there are many. */
  isShy?: boolean;
}

/** The graph edges of a drawn edge. */
interface MergedEdges {
  /** Their indices, from the source on. */
  edges: readonly number[];
  /** Folded graph nodes, from the source on. */
  folded: readonly number[];
  /** The number of merged lines. */
  count: number;
  /** The number of tensors: several lines may carry the same one. */
  tensors: number;
  signs: EdgeSign[];
}

/** The argument of an edge, written on it. */
export interface EdgeLabel extends Place {
  text: string;
}

/** A number on an edge: of tensors, or of folded nodes. */
export interface EdgeSign extends Place {
  kind: "count" | "folded";
  text: string;
  /** Whether it appears only with the pointer, the selection or the running step. */
  isShy?: boolean;
}
