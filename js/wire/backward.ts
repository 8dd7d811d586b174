import type { JsonNumber, Values } from "./values";

/** What the widget has seen of backward. Changes while the graph stays. */
export interface StateModel {
  /** How many backward passes through this graph have been seen. */
  runs: number;
  /** Nodes that a gradient flowed into in the last of them. */
  reached: number[];
  /** Places in `edges` of those that a gradient was passed along then. */
  flowed: number[];
  /** Nodes whose saved tensors torch has freed: a second backward through them fails. */
  freed: number[];
  /** One sentence for the status line. */
  note: string;
}

/** One node's backward, in the engine's order; `steps[k]` has the number k + 1. */
export interface StepModel {
  step: number;
  node: number;
  op: string;
  /** User text. */
  name: string | null;
  /** What this step adds to, "x.grad"; null when it stores nothing. User text. */
  accumulated: string | null;
  /** After how many steps all gradients of this node had arrived. */
  ready: number;
}

/** The gradient that backward started from at one output. */
export interface SeedModel {
  node: number;
  output_nr: number;
  values: Values | null;
  norm: JsonNumber | null;
}

/** What the `.grad` of a leaf, or of a tensor that retains it, held after a node's step. */
export interface GrownModel {
  node: number;
  values: Values | null;
  norm: JsonNumber | null;
}

/** A node where something went wrong, and the sentence that says what. */
export interface MarkModel {
  node: number;
  kind: "error" | "nan";
  note: string;
}

/** What flowed in the backward pass whose steps are shown. `edges`, `values` and `norms` are aligned. */
export interface RunModel {
  run: number;
  ended: "done" | "stopped";
  seeds: SeedModel[];
  /** Places in `edges` of the graph. */
  edges: number[];
  /** Numbers of gradients of at most four, null of larger ones. */
  values: (Values | null)[];
  norms: (JsonNumber | null)[];
  grads: GrownModel[];
  marks: MarkModel[];
}

/** Whether travelling moves `.grad`, and what the bar has to say. */
export interface TransportModel {
  owned: boolean;
  note: string | null;
  /** Why no backward can be started; null when one can. */
  blocked: string | null;
}
