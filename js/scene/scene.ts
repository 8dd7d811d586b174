import type { Direction } from "../layout/direction";
import type { EdgeModel, NodeModel } from "../wire";
import type { SceneFrame } from "./frame";
import type { NodeShape } from "./node_shape";
import type { ClosedGroup, Gate } from "./plan";

/** A graph with every position known: plain numbers and strings, for any painter. */
export interface Scene {
  direction: Direction;
  /** Whether data flows along the arrows, against the way gradients would. */
  isStatic?: boolean;
  width: number;
  height: number;
  nodes: SceneNode[];
  edges: SceneEdge[];
  /** Per node id, the indices in `nodes` of what is drawn for it: itself, then its copies. */
  drawn: number[][];
  /** Open groups, each after the one around it. */
  frames: SceneFrame[];
  /** Signs that others put on the picture, which no text may cover. */
  signs?: readonly Place[];
  /** Of nodes that gave derivatives, to what these are the derivatives of; left out where there are none. */
  links?: readonly SceneLink[];
  /** Per graph edge, its place in `edges`, -1 if it is hidden; left out where they are the same. */
  edgeOf?: Int32Array;
}

export interface SceneNode {
  /** Position in `Scene.nodes`. */
  index: number;
  /** The node of the graph that it stands for; copies of a shared leaf share it. */
  id: number;
  leaf: boolean;
  /** Whether it makes an output. */
  root: boolean;
  /** How often it is drawn. */
  copies: number;
  /** Centre. */
  x: number;
  y: number;
  rank: number;
  shape: NodeShape;
  /** The kind of a node outside autograd. */
  quiet?: QuietKind;
  /** The rows of a leaf that adds up: the operation of each use. */
  rows?: readonly string[];
  /** Constants that its sign says. */
  said?: readonly number[];
  /** Nodes of the graph that are drawn with it: an activation with the sum that it follows. */
  also?: readonly number[];
  /** The content of a closed box; the node's id is that of the first node in it. */
  group?: ClosedGroup;
  /** Of a block in a strip, how it is filled. */
  bar?: Bar;
  /** In a lens: the node represents something outside. */
  gate?: Gate;
  /** Which ranks of a run have it, where not all have: "only on rank 0". */
  only?: string;
  /** Whether the head of an open box around it says so. */
  isTold?: boolean;
}

/** A bar of a strip, filled by the size of its gradient relative to the other bars. */
interface Bar {
  /** Index of the first bar of its strip. */
  strip: number;
  /** The way it is filled: from the bottom, or from the left. */
  grows: "up" | "right";
  /** How much room a number has, px along the row. */
  room: number;
}

/** Kinds of nodes that no gradient flows through. */
type QuietKind = Exclude<NodeModel["kind"], "op" | "leaf">;

export interface SceneEdge {
  /** Position in `Scene.edges`, and in the graph's edges where it is not merged. */
  index: number;
  /** Indices in `Scene.nodes`. */
  source: number;
  target: number;
  /** x, y of the start, then cubic segments of three points each. */
  curve: Float64Array;
  /** Left, top, right, bottom. */
  bounds: [number, number, number, number];
  label: EdgeLabel | null;
  /** What it is when no gradient flows along it. */
  quiet?: Exclude<EdgeModel["kind"], "gradient">;
  /** What of the graph it stands for, in a picture with folded groups or plumbing. */
  merged?: MergedEdges;
  /** Whether not all ranks of a run have it. */
  isOnSome?: boolean;
  /** Of an edge into a leaf that adds up in rows, which is its own. */
  row?: number;
  /** Whether it runs against the flow, as lines between boxes do that feed each other. */
  backward: boolean;
}

/** One node computed the derivative of another node's output. Links are not edges: layout, counts and steps ignore them. */
export interface SceneLink {
  /** Indices in `Scene.nodes`. */
  source: number;
  target: number;
  /** x, y of the start, then one cubic segment. */
  curve: readonly number[];
  label: EdgeLabel | null;
  /** Whether it is drawn only while an end of it is selected: there are many. */
  isShy?: boolean;
}

/** What one drawn edge stands for. */
interface MergedEdges {
  /** Places of the graph's edges that it is made of, from the source on. */
  edges: readonly number[];
  /** Graph nodes folded into it, from the source on. */
  folded: readonly number[];
  /** How many lines were merged into it. */
  count: number;
  /** How many tensors go along them: several lines may hand the same one on. */
  tensors: number;
  signs: EdgeSign[];
}

/** A text's box; x, y is its centre. */
export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The argument an edge feeds, written on the edge. */
export interface EdgeLabel extends Place {
  text: string;
}

/** A number on an edge: how many tensors go along it, or how much plumbing is folded into it. */
export interface EdgeSign extends Place {
  kind: "count" | "folded";
  text: string;
  /** Whether it is seen only while an end of the line is pointed at: it would be most of a short line. */
  isShy?: boolean;
}
