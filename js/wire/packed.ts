import type { GrownModel, MarkModel, SeedModel, TransportModel } from "./backward";
import type { ModulesModel, NoGradInput, RootModel } from "./graph";
import type { Column, JsonNumber, Ranges, Values } from "./values";

/** What nodes that are alike have in common. */
export interface NodeForm {
  kind: "leaf" | "op" | "constant" | "cut" | "outside";
  op: string;
  shape: number[] | null;
  no_grad_inputs: NoGradInput[];
  inferred: boolean;
}

/** What edges that are alike have in common. */
export interface EdgeForm {
  argument: string | null;
  input_nr: number | null;
  output_nr: number;
  kind: "gradient" | "constant" | "cut";
}

/** The nodes, a row each: places in `node_forms` and in `texts`. */
export interface PackedNodes {
  form: Column;
  name: Column;
  /** 0 where it is the name, else the value, else the op. */
  label: Column;
  namespace: Column;
  value: Column;
}

/** The edges, a row each. */
export interface PackedEdges {
  /** Places in `edge_forms`. */
  form: Column;
  /** The difference to the source in the row before; to 0 in the first. */
  source: Column;
  /** How far behind the node that follows all targets of the rows before; 0 in most rows. */
  target: Column;
}

/** A `GraphModel` as it travels. */
export interface PackedGraph {
  v: number;
  /** Whether it is a static graph: written down before it runs, without gradients. */
  static: boolean;
  modules: ModulesModel;
  /** The first is null. User text. */
  texts: (string | null)[];
  node_forms: NodeForm[];
  edge_forms: EdgeForm[];
  nodes: PackedNodes;
  edges: PackedEdges;
  roots: RootModel[];
}

/** A `StateModel` as it travels. */
export interface PackedState {
  runs: number;
  reached: Ranges;
  flowed: Ranges;
  freed: Ranges;
  note: string;
}

/** The steps as they travel, a row each. */
export interface PackedSteps {
  /** User text. */
  texts: (string | null)[];
  /** The difference to the node in the row before; to 0 in the first. */
  node: Column;
  /** Places in `texts`, and so the next two. */
  op: Column;
  name: Column;
  accumulated: Column;
  /** How many steps ran between the one that made it ready and its own. */
  waited: Column;
}

/** A `RunModel` as it travels. */
export interface PackedRun {
  run: number;
  ended: "done" | "stopped";
  seeds: SeedModel[];
  edges: Ranges;
  /** Places in `edges` of those whose gradient comes with its numbers. */
  valued: Ranges;
  values: Values[];
  /** A run of the same is one entry, [norm, how often]. */
  norms: (JsonNumber | null | (JsonNumber | null)[])[];
  grads: GrownModel[];
  marks: MarkModel[];
}

/** A `PaneModel` as it travels. */
export interface PackedPane {
  label: string;
  graph: PackedGraph;
}

/** A `PassModel` as it travels. */
export interface PackedPass {
  state: PackedState;
  steps: PackedSteps;
  run: PackedRun | null;
  transport: TransportModel;
}

/** A `DtypesModel` as it travels. */
export interface PackedDtypes {
  names: string[];
  nodes: Column;
}
