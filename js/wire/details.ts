import type { NoGradInput } from "./graph";
import type { JsonNumber, Values } from "./values";

export interface TensorSummary {
  shape: number[];
  dtype: string;
  device: string;
  numel: number;
  /** At most 64 numbers, an evenly spread slice when the tensor has more; null when it holds none. */
  values: Values | null;
  truncated: boolean;
  /** Which positions `values` shows along each dimension, when truncated. */
  indices: number[][] | null;
  min: JsonNumber | null;
  max: JsonNumber | null;
  mean: JsonNumber | null;
  norm: JsonNumber | null;
  /** Counts. */
  nan: number | null;
  inf: number | null;
  zeros: number | null;
  /** A sentence when something about this tensor needs saying (meta, sparse, not kept ...). */
  note: string | null;
}

export interface OutputModel {
  output_nr: number;
  name: string | null;
  shape: number[] | null;
  dtype: string | null;
  device: string | null;
  /** Whether this tensor is one of those handed to the widget. */
  is_root: boolean;
}

export interface InputModel {
  input_nr: number;
  argument: string | null;
  node: number;
  output_nr: number;
  label: string;
  shape: number[] | null;
}

export interface ConsumerModel {
  node: number;
  input_nr: number | null;
  argument: string | null;
  output_nr: number;
  label: string;
}

export interface SavedModel {
  name: string;
  summary: TensorSummary | null;
  /** A number, flag, text or list that is not a tensor. */
  scalar: unknown;
  freed: boolean;
  note: string | null;
}

/** One consumer's share of the gradient that arrives at a node, and the sum so far. */
export interface ContributionModel {
  step: number;
  /** Null for the gradient that backward started from. */
  consumer: number | null;
  label: string;
  input_nr: number | null;
  argument: string | null;
  output_nr: number;
  grad: TensorSummary | null;
  total: TensorSummary | null;
}

/** The derivative with respect to one input, as code; `source` says whose words they are. */
export interface FormulaModel {
  input_nr: number;
  argument: string | null;
  code: string;
  /** The same with the numbers put in. */
  numbers: string | null;
  source: "gradwalk" | "torch";
  note: string | null;
}

/** One edge of a path from an output to a leaf, and the derivative along it. */
export interface FactorModel {
  edge: number;
  node: number;
  target: number;
  code: string;
  value: Values | null;
  note: string | null;
}

/** One way from an output to a leaf. */
export interface PathModel {
  factors: FactorModel[];
  written: string | null;
  product: Values | null;
}

/** The chain rule from the outputs to one leaf: a product along each path, summed over paths. */
export interface ChainModel {
  paths: PathModel[];
  total_paths: JsonNumber;
  written: string | null;
  sum: Values | null;
  note: string;
}

/** A line of the user's program. All user text. */
export interface SourceModel {
  file: string;
  line: number;
  text: string;
  function: string;
}

/** An operand that needs no grad and is drawn, seen from the node that takes it. */
export interface ConstantModel {
  node: number;
  argument: string | null;
  input_nr: number | null;
  label: string;
  shape: number[] | null;
}

/** Where gradient was lost on the way to an operand, and the node of the tensor before it. */
export interface CutModel {
  /** "detach", "no_grad", "integer cast", ... */
  how: string;
  node: number;
  label: string;
  line: SourceModel | null;
  /** Where grad mode had been switched off. */
  region: SourceModel | null;
}

export interface GradNotes {
  grad: string | null;
  grad_output: string | null;
  grad_input: string | null;
}

/** A part of the details that could not be worked out, and a sentence why. */
export interface FailedModel {
  /** The field of `DetailsModel` that is empty for it. */
  part: string;
  sentence: string;
}

/** Everything the panel shows of the selected node; every list is of the first 100. */
export interface DetailsModel {
  id: number;
  kind: "leaf" | "op" | "constant" | "cut" | "outside";
  op: string;
  name: string | null;
  /** A sentence or two: what this node is. */
  about: string;
  /** The forward signature behind the node, as the installed torch declares it. */
  forward: string | null;
  shape: number[] | null;
  dtype: string | null;
  device: string | null;
  /** These two null where they are not known, in a static graph. */
  requires_grad: boolean | null;
  is_leaf: boolean | null;
  outputs: OutputModel[];
  output_count: number;
  saved: SavedModel[];
  saved_count: number;
  inputs: InputModel[];
  /** Of `inputs`, `no_grad_inputs` and `constants` together. */
  input_count: number;
  no_grad_inputs: NoGradInput[];
  /** The first 100. */
  consumers: ConsumerModel[];
  consumer_count: number;
  /** What the tensor itself holds, for a leaf. */
  value: TensorSummary | null;
  grad: TensorSummary | null;
  /** One per output of the node. */
  grad_output: (TensorSummary | null)[] | null;
  /** One per entry of `inputs`. */
  grad_input: (TensorSummary | null)[] | null;
  grad_note: GradNotes;
  state: "waiting" | "ready" | "running" | "done" | "not reached";
  /** Each consumer's share of what arrives here, the first 100; null when no run is shown. */
  contributions: ContributionModel[] | null;
  contribution_count: number;
  formula: FormulaModel[];
  /** For a leaf. */
  chain: ChainModel | null;
  /** The line that made it, and below what else was watched. */
  source: SourceModel | null;
  /** "encoder.layers.0.linear1", or the class name of the outermost module. User text. */
  module: string | null;
  /** The forward function, "torch.nn.functional.linear". User text. */
  call: string | null;
  inplace: boolean;
  inferred: boolean;
  /** The operands of an operation that are drawn as constants or cuts; `no_grad_inputs` has the others. */
  constants: ConstantModel[];
  /** Of a cut. */
  cuts: CutModel[];
  /** Why the `.grad` of a leaf is as it is, as `explain_grad` says it. */
  explained: string | null;
  failed: FailedModel[];
}

/** Where a node stands when a number of steps have run. */
export type NodeState = DetailsModel["state"];
