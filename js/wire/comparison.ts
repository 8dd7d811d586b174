import type { RunModel, StateModel, StepModel, TransportModel } from "./backward";
import type { GraphModel } from "./graph";
import type { JsonNumber, Values } from "./values";

/** One of the graphs of a comparison. */
export interface PaneModel {
  /** User text. */
  label: string;
  graph: GraphModel;
}

/** What has been seen of backward through one of the graphs of a comparison. */
export interface PassModel {
  state: StateModel;
  steps: StepModel[];
  run: RunModel | null;
  transport: TransportModel;
}

/** One step of several passes at once; `node` is a place in the trait `members`. */
export interface MergedStepModel {
  node: number;
  /** The passes that run it in this step. */
  passes: number[];
}

/** A gradient in few numbers: its values if it has at most four, and its norm. */
export interface FewModel {
  values: Values | null;
  norm: JsonNumber | null;
}

/** A leaf in one of the graphs; `node` is a place in `members`, null where it is not. */
export interface LeafCellModel {
  node: number | null;
  requires_grad: boolean | null;
  is_leaf: boolean | null;
  /** The `.grad` before backward; null for None. */
  before: FewModel | null;
  now: FewModel | null;
}

/** A leaf in all of the graphs. */
export interface LeafRowModel {
  /** User text. */
  name: string | null;
  cells: LeafCellModel[];
}

/** The leaves side by side; `total` counts also those that are left out. */
export interface LeafTableModel {
  rows: LeafRowModel[];
  total: number;
}
