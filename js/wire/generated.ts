// Written by tools/wire_types.py from src/gradwalk/schema. Do not edit: `make types`.

export const DIRECTIONS = ["down", "right", "up", "left"] as const;

export const PLUMBING = ["AliasBackward0", "AsStridedBackward0", "CloneBackward0", "CopyBackwards", "DiagonalBackward0", "ExpandBackward0", "LiftBackward0", "PermuteBackward0", "RepeatBackward0", "ReshapeAliasBackward0", "SelectBackward0", "SliceBackward0", "SplitBackward0", "SplitWithSizesBackward0", "SqueezeBackward0", "SqueezeBackward1", "SqueezeBackward2", "SqueezeBackward3", "SqueezeBackward4", "SqueezeBackward5", "TBackward0", "ToCopyBackward0", "TransposeBackward0", "TransposeBackward1", "UnbindBackward0", "UnfoldBackward0", "UnsafeSplitBackward0", "UnsafeSplitWithSizesBackward0", "UnsafeViewBackward0", "UnsqueezeBackward0", "UnsqueezeBackward1", "ViewAsComplexBackward0", "ViewAsRealBackward0", "ViewBackward0"] as const;

/** Which way gradients flow in the drawing. */
export type Direction = "down" | "right" | "up" | "left";

/** The same, or whichever shows most of the graph at once. */
export type DirectionChoice = "auto" | "down" | "right" | "up" | "left";

/** A whole number from 0. */
export type Count = number;

/** A node: its place in `nodes`. */
export type NodeId = number;

/** One of the autograd nodes, which come first. */
export type AutogradNodeId = number;

/** An edge: its place in `edges`. */
export type EdgePlace = number;

/** One of the edges along which gradients can flow, which come first. */
export type GradientEdgePlace = number;

/** A checkpointed region: its place in `checkpoints`. */
export type CheckpointPlace = number;

/** A number as JSON can carry it: integers beyond 2**53, NaN and infinities come as strings. */
export type JsonNumber = number | string;

/** The same, never a complex one. */
export type RealNumber = number | string;

/** Values of a tensor: nested lists, one level per dimension, a bare value for a 0-dim tensor. */
export type Values = JsonNumber | boolean | Values[];

/** A number, flag, text, nothing, or lists of them. */
export type Plain = unknown;

/** What a node stands for; only the first two are autograd nodes. */
export type Kind = "leaf" | "op" | "call" | "constant" | "cut" | "outside";

export type EdgeKind = "gradient" | "constant" | "cut";

export type NodeState = "waiting" | "ready" | "running" | "done" | "not reached";

/** An operand that needs no gradient: a `None` in `next_functions`. */
export interface NoGradInput {
  input_nr: Count;
  argument: string | null;
}

/** One node, as much of it as the drawing needs. The autograd nodes come first. */
export interface NodeModel {
  /** Position in `nodes`; breadth-first from the outputs. */
  id: NodeId;
  /**
   * The first two are autograd nodes, and come first; calls, which are inside of compiled code or
   * what the backward of a custom Function ran, come next. A constant is an operand that needs no
   * grad; a cut is one that lost its gradient on the way; outside is the tensor of another graph
   * that a cut began at.
   */
  kind: Kind;
  /**
   * The class name torch gives the node, "MulBackward0"; "AccumulateGrad" for a leaf. Of a cut, how
   * it was made, "x.detach()". User text.
   */
  op: string;
  /**
   * What the operation is called on a board, "+", "× 2", "x²", "conv2d 3×3"; null for what is none.
   * Of a leaf what is done for it before each use, "all-gather" under FSDP2.
   */
  sign: string | null;
  /** Of a constant that is one number and has no name, the operation whose sign says it. */
  said_by: NodeId | null;
  /** What to write on the node: its name if it has one, else its op. User text. */
  label: string;
  /** The name the user's program gives the tensor(s) this node made, or null. User text. */
  name: string | null;
  /** Shape of the first output (op) or of the tensor (leaf); null when torch does not tell. */
  shape: Count[] | null;
  /** Operands that need no gradient: a `None` in `next_functions`. */
  no_grad_inputs: NoGradInput[];
  /**
   * The module that ran the operation, "encoder/layers/0"; "" for the outermost, and for what came
   * from outside of all modules; null where it is not known: it is drawn with what takes it. Many
   * operations outside of modules have a box that is none: "balancing_loss()", "loss = …".
   */
  namespace: string | null;
  /**
   * What it holds or gave, when that is known and of at most 16 numbers; of a static graph, a number
   * as it is written in the program.
   */
  value: Values | null;
  /**
   * Whether it was changed in place since operations took it (of a leaf), and what they took is not
   * known. null where that may be: `value` is what it holds now.
   */
  changed: boolean | null;
  /**
   * Whether it (of a constant or a cut) or its namespace (of an autograd node) is inferred rather
   * than watched.
   */
  inferred: boolean;
  /** The innermost checkpointed region that it was made in. */
  checkpoint: CheckpointPlace | null;
  /** Of a call, and of a tensor that it takes, the opened node that it is inside of. */
  inside: NodeId | null;
  /** Whether it is a call of the forward pass that was put into backward. */
  recomputed: boolean;
}

/**
 * From a node to the producer of one of its inputs: the way gradients flow. Those along which
 * gradients can flow come first: between autograd nodes, then inside of opened nodes, where they
 * lead to a call, which takes the gradient as its operand `output_nr`. Of the others `input_nr`
 * may be null.
 */
export interface EdgeModel {
  source: NodeId;
  target: NodeId;
  /** Which forward input of the source this is, "self", "mat2"; null when torch does not tell. */
  argument: string | null;
  /** null where it is not known, which can be on an edge of another kind than "gradient". */
  input_nr: Count | null;
  /** Which output of the target was that input. */
  output_nr: Count;
  /**
   * No gradient flows along the other two: from an operation to a constant, and from a cut to its
   * source.
   */
  kind: EdgeKind;
  /** Of an opened source the call inside of it that gives this gradient; null of all others. */
  via: NodeId | null;
}

/** One tensor handed to the widget. */
export interface RootModel {
  node: NodeId;
  output_nr: Count;
  name: string | null;
}

/** The classes of modules; `classes` has, per namespace, a place in `names`. */
export interface ModulesModel {
  namespaces: string[];
  classes: Count[];
  names: string[];
}

/** A part of the program that runs forward again in backward. */
export interface CheckpointModel {
  /** The region that it lies in. */
  parent: CheckpointPlace | null;
  /** The namespace whose box it is; null where its operations have no box for themselves. */
  box: string | null;
  /** Such as "saves 38 MiB"; empty where that is not known. */
  saves: string;
  /** A sentence or two. */
  about: string;
}

/**
 * That one node gave the derivative of what another gave, as the program was seen to compute. It
 * is no edge of the graph.
 */
export interface DerivativeModel {
  /** Which gave the derivative. */
  node: AutogradNodeId;
  of: AutogradNodeId;
}

/** The gradient that arrives at a node, over the ranks of a run: a strip of bars. */
export interface NodeRanksModel {
  node: AutogradNodeId;
  /** Its largest finite norm on the ranks of each bar, in four digits; null where none is. */
  most: (JsonNumber | null)[];
  /** The least; null where each bar stands for one rank. */
  least: (JsonNumber | null)[] | null;
  /** Places of the bars that have a NaN or an infinity. */
  not_finite: Count[];
  /** Places of those that have a rank where none arrives. */
  without: Count[];
  /** Places of those whose ranks do something else, as another stage of a pipeline does. */
  beyond: Count[];
  /** Places of those that have a rank that is not as most are. */
  odd: Count[];
  /** Which ranks have the node, where not all have it: "only on rank 0". */
  only: string | null;
  /** Whether the rank that is shown has it. */
  here: boolean;
}

/** An edge that not all ranks have. */
export interface EdgeRanksModel {
  edge: EdgePlace;
  /** Whether the rank that is shown has it. */
  here: boolean;
}

/** Nodes of other ranks that are not drawn here, where there are too many kinds of graphs. */
export interface ElsewhereModel {
  /** The first of these ranks. */
  rank: Count;
  /** All of them in words: "ranks 1 and 3". */
  ranks: string;
  /** How many autograd nodes each has beyond those that are drawn. */
  count: Count;
  /** Of the leaves among them, the first few. User text. */
  names: string[];
}

/** The ranks of a run. */
export interface RanksModel {
  /** Whose graph it is. */
  shown: Count;
  count: Count;
  /** The first rank of each bar, and the last; of many ranks several share a bar. */
  first: Count[];
  last: Count[];
  /** The autograd nodes of which there is something to say. */
  nodes: NodeRanksModel[];
  /** Those that not all ranks have. */
  edges: EdgeRanksModel[];
  /** What is not drawn here, the first few kinds of other graphs. */
  elsewhere: ElsewhereModel[];
}

/** What the browser draws. */
export interface GraphModel {
  /** Whether it is a static graph: written down before it runs, without gradients. */
  static: boolean;
  modules: ModulesModel;
  nodes: NodeModel[];
  edges: EdgeModel[];
  roots: RootModel[];
  /** A region comes after the one that it lies in. */
  checkpoints: CheckpointModel[];
  /** Each pair once. */
  derivatives: DerivativeModel[];
  /** Of a graph that the files of several ranks were loaded for. */
  ranks: RanksModel | null;
}

/** The dtype of every node. */
export interface DtypesModel {
  /** Such as "float32". */
  names: string[];
  /** Per graph node, the place of its dtype in `names`; -1 where torch does not tell. */
  nodes: number[];
}

/** What the widget has seen of backward. Changes while the graph stays. */
export interface StateModel {
  /** How many backward passes through this graph have been seen. */
  runs: Count;
  /** Nodes that a gradient flowed into in the last of them. */
  reached: AutogradNodeId[];
  /** Places in `edges` of those that a gradient was passed along then. */
  flowed: GradientEdgePlace[];
  /** Nodes whose saved tensors torch has freed: a second backward through them fails. */
  freed: AutogradNodeId[];
  /** What small leaves hold in `.grad` while no pass is shown, which then says it. */
  held: HeldModel[];
  /** One sentence for the status line. */
  note: string;
}

/** One node's backward, in the engine's order. The trait `steps` is a list of these. */
export interface StepModel {
  step: Count;
  node: AutogradNodeId;
  op: string;
  /** User text. */
  name: string | null;
  /** What this step adds to, "x.grad"; null when it stores nothing. User text. */
  accumulated: string | null;
  /** After how many steps all gradients of this node had arrived. */
  ready: Count;
}

/** The gradient that backward started from at one output. */
export interface SeedModel {
  node: AutogradNodeId;
  output_nr: Count;
  values: Values | null;
  norm: JsonNumber | null;
}

/** A gradient in few numbers: its values if it has at most six, and its norm. */
export interface FewModel {
  values: Values | null;
  norm: JsonNumber | null;
}

/** What the `.grad` of a leaf holds. */
export interface HeldModel extends FewModel {
  node: AutogradNodeId;
}

/** What the `.grad` of a leaf, or of a tensor that retains it, held after a node's step. */
export interface GrownModel extends HeldModel {
  /** What it held before the pass; null when it was null. */
  before: FewModel | null;
  /** Whether something else has changed it since, such as clipping or `zero_grad()`. */
  changed: boolean;
  /** What it then holds now; null when it is null. */
  now: FewModel | null;
}

/** The gradient of a node's output, all shares added up, where that is not one edge's alone. */
export interface ArrivedModel {
  node: AutogradNodeId;
  values: Values | null;
  norm: JsonNumber | null;
}

/** A node where something went wrong, and the sentence that says what. */
export interface MarkModel {
  node: AutogradNodeId;
  kind: "error" | "nan";
  note: string;
}

/**
 * What flowed in the backward pass whose steps are shown, in few numbers. `edges`, `values` and
 * `norms` are aligned: one entry per edge that carried a gradient. `values` has the numbers of
 * gradients of at most six, null of larger ones.
 */
export interface RunModel {
  run: Count;
  ended: "done" | "stopped";
  seeds: SeedModel[];
  /** Places in `edges` of the graph. */
  edges: GradientEdgePlace[];
  /** Numbers of gradients of at most six, null of larger ones. */
  values: (Values | null)[];
  norms: (JsonNumber | null)[];
  /** Of nodes that several edges lead to, or at which a hook changed what had arrived. */
  arrived: ArrivedModel[];
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

/** A leaf in one of the graphs; `node` is a place in `members`, null where it is not. */
export interface LeafCellModel {
  node: number | null;
  requires_grad: boolean | null;
  is_leaf: boolean | null;
  /** The `.grad` before backward, if there was one. */
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

/** What became of an operation in compiled code; places are those in `members`. */
export interface BecameModel {
  place: Count;
  /** One call or several; nothing, the gradient goes straight on; or no counterpart was found. */
  how: "one" | "several" | "dropped" | "unknown";
  calls: Count[];
  /** Calls of its forward that run again. */
  again: Count[];
  /** User text, as the next. */
  label: string;
  /** Its module and line, as far as they are known. */
  where: string;
  /** What became of it, in words. */
  said: string;
}

/** Compiled code that is open, beside the same program that is not compiled. */
export interface CompiledModel {
  /** What there is to say of all of it. */
  said: string;
  operations: BecameModel[];
  /** Calls that add up gradients, as the engine does between nodes. */
  adding: Count[];
  /** Calls of which it is not known what they stand for. */
  others: Count[];
}

/** How far the numbers of a node are apart in two graphs; `place` is one in `members`. */
export interface ErrorModel {
  place: Count;
  /** Relative, as the next two; null where it is not known. */
  value: JsonNumber | null;
  grad: JsonNumber | null;
  /** What of it arises at the node. */
  own: JsonNumber | null;
  /** Whether `own` is one. */
  is_estimate: boolean;
  /** What is out of tolerance first. */
  leaves: "value" | "gradient" | null;
}

/** A node at which error arises, in words. */
export interface ErrorSourceModel extends ErrorModel {
  /** User text, as the next. */
  label: string;
  /** Its module and line, as far as they are known. */
  where: string;
}

/** Two graphs, number by number: see `gradwalk.compare_numerics`. */
export interface ErrorsModel {
  /** What there is to say of all of it. */
  said: string;
  /** The place that is out of tolerance first. */
  first: Count | null;
  nodes: ErrorModel[];
  /** Where most error arises, the most first. */
  sources: ErrorSourceModel[];
}

/** A tensor in at most 64 numbers and its statistics. */
export interface TensorSummary {
  shape: Count[];
  dtype: string;
  device: string;
  numel: Count;
  /** At most 64 numbers, an evenly spread slice when the tensor has more; null when it holds none. */
  values: Values | null;
  truncated: boolean;
  /** Which positions `values` shows along each dimension, when truncated. */
  indices: Count[][] | null;
  min: JsonNumber | null;
  max: JsonNumber | null;
  mean: JsonNumber | null;
  norm: JsonNumber | null;
  /** Counts. */
  nan: Count | null;
  inf: Count | null;
  zeros: Count | null;
  /** A sentence when something about this tensor needs saying (meta, sparse, not kept ...). */
  note: string | null;
}

/** What the forward pass gave at a node, and a sentence where that is known from. */
export interface ValueModel extends TensorSummary {
  origin: string;
}

/** One output of the forward operation behind a node. */
export interface OutputModel {
  output_nr: Count;
  name: string | null;
  shape: Count[] | null;
  dtype: string | null;
  device: string | null;
  /** Whether this tensor is one of those handed to the widget. */
  is_root: boolean;
}

/** One edge out of a node, seen from that node. */
export interface InputModel {
  input_nr: Count;
  argument: string | null;
  node: NodeId;
  output_nr: Count;
  label: string;
  shape: Count[] | null;
}

/** One edge into a node, seen from that node. */
export interface ConsumerModel {
  node: NodeId;
  input_nr: Count | null;
  argument: string | null;
  output_nr: Count;
  label: string;
}

/** Something a node keeps for backward: a tensor's summary, or a plain value. */
export interface SavedModel {
  name: string;
  summary: TensorSummary | null;
  /** A number, flag, text or list that is not a tensor. */
  scalar: Plain;
  freed: boolean;
  note: string | null;
}

/** One consumer's share of the gradient that arrives at a node, and the sum so far. */
export interface ContributionModel {
  step: Count;
  /** null for the gradient that backward started from. */
  consumer: NodeId | null;
  label: string;
  input_nr: Count | null;
  argument: string | null;
  output_nr: Count;
  grad: TensorSummary | null;
  total: TensorSummary | null;
}

/** The derivative with respect to one input, as code; `source` says whose words they are. */
export interface FormulaModel {
  input_nr: Count;
  argument: string | null;
  code: string;
  /** The same with the numbers put in. */
  numbers: string | null;
  source: "gradwalk" | "torch";
  note: string | null;
}

/** One edge of a path from an output to a leaf, and the derivative along it. */
export interface FactorModel {
  edge: EdgePlace;
  node: NodeId;
  target: NodeId;
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

/** The chain rule from the outputs to one node: a product along each path, summed over paths. */
export interface ChainModel {
  paths: PathModel[];
  total_paths: JsonNumber;
  written: string | null;
  sum: Values | null;
  note: string;
}

/** Why a gradient is not there, one sentence for each that is null. */
export interface GradNotes {
  grad: string | null;
  grad_output: string | null;
  grad_input: string | null;
}

/** A line of the user's program. */
export interface SourceModel {
  file: string;
  line: Count;
  text: string;
  function: string;
}

/** An operand that needs no grad and is drawn, seen from the node that takes it. */
export interface ConstantModel {
  node: NodeId;
  argument: string | null;
  input_nr: Count | null;
  label: string;
  shape: Count[] | null;
}

/** Where gradient was lost on the way to an operand, and the node of the tensor before it. */
export interface CutModel {
  /** Such as "detach", "no_grad" or "integer cast". */
  how: string;
  node: NodeId;
  label: string;
  line: SourceModel | null;
  /** Where grad mode had been switched off. */
  region: SourceModel | null;
}

/** The backward of a custom `autograd.Function`, as it is written. */
export interface FunctionModel {
  /** "Cube.backward". User text. */
  method: string;
  /** Where it begins. */
  place: SourceModel | null;
  /** Its source, empty where that is not known. User text. */
  code: string;
  /** Why it is not. */
  note: string | null;
}

/** One operation that a backward ran. */
export interface OperationModel {
  /** What torch calls it, "aten.mul.Tensor". */
  called: string;
  /** The node of a backward pass within this one that asked for it. */
  behind: string | null;
  gave: TensorSummary | null;
}

/** A part of the details that could not be worked out, and a sentence why. */
export interface FailedModel {
  part: string;
  sentence: string;
}

/** The gradient of a leaf on one rank; both null where its graph lacks the leaf. */
export interface RankGradModel {
  rank: Count;
  /** What arrived at the leaf there: the gradient of that rank alone. */
  local: TensorSummary | null;
  /** Its `.grad`; under FSDP2 that rank's part of it. */
  reduced: TensorSummary | null;
  /**
   * `local` less `reduced`, number by number; under FSDP2 of that part. null where the rank did not
   * have both, with their values, when it saved.
   */
  difference: TensorSummary | null;
  /** In which bucket of DistributedDataParallel it was reduced, from 0, as far as its log tells. */
  bucket: Count | null;
  /** Which of its gradients it was, from 0, in the order in which they were there. */
  ready: Count | null;
  /**
   * Whether it is not as on most ranks. The local one: NaN, an infinity or no gradient where most
   * have one, or the other way round; among three and more, a norm over 10 times the middle one, or
   * under a tenth of it. The reduced one: another than most ranks have.
   */
  odd: boolean;
}

/**
 * Everything the panel shows of the selected node. Every list is of the first 100; the counts are
 * of all. `input_count` is that of `inputs`, `no_grad_inputs` and `constants` together.
 */
export interface DetailsModel {
  id: NodeId;
  kind: Kind;
  op: string;
  name: string | null;
  /** A sentence or two: what this node is. */
  about: string;
  /** The forward signature behind the node, as the installed torch declares it. */
  forward: string | null;
  shape: Count[] | null;
  dtype: string | null;
  device: string | null;
  /** These two null where they are not known, in a static graph. */
  requires_grad: boolean | null;
  is_leaf: boolean | null;
  outputs: OutputModel[];
  output_count: Count;
  saved: SavedModel[];
  saved_count: Count;
  inputs: InputModel[];
  input_count: Count;
  no_grad_inputs: NoGradInput[];
  /** The first 100. */
  consumers: ConsumerModel[];
  consumer_count: Count;
  /** What the operation gave, or what the leaf or constant holds. */
  value: ValueModel | null;
  /** Why no value is known, where that needs saying. */
  value_note: string | null;
  grad: TensorSummary | null;
  /** One per output of the node. */
  grad_output: (TensorSummary | null)[] | null;
  /** One per entry of `inputs`. */
  grad_input: (TensorSummary | null)[] | null;
  grad_note: GradNotes;
  state: NodeState;
  /** Each consumer's share of what arrives here, the first 100; null when no run is shown. */
  contributions: ContributionModel[] | null;
  contribution_count: Count;
  formula: FormulaModel[];
  /** For a leaf, and for a single number of a small graph. */
  chain: ChainModel | null;
  /** The line that made it, and below what else was watched. */
  source: SourceModel | null;
  /** Such as "encoder.layers.0.linear1"; of the outermost module its class name. User text. */
  module: string | null;
  /** The forward function, "torch.nn.functional.linear". User text. */
  call: string | null;
  inplace: boolean;
  inferred: boolean;
  /** That it runs forward again in backward, and what that saves. */
  checkpoint: string | null;
  /**
   * The operands of an operation that are drawn as constants or cuts; `no_grad_inputs` has the
   * others.
   */
  constants: ConstantModel[];
  /** Of a cut. */
  cuts: CutModel[];
  function: FunctionModel | null;
  /** What the backward of a custom Function ran, the first 100; none where that was not noted. */
  operations: OperationModel[];
  operation_count: Count;
  /** Why the `.grad` of a leaf is as it is, as `explain_grad` says it. */
  explained: string | null;
  /** Of a leaf in the files of several ranks: its gradient on each. */
  ranks: RankGradModel[];
  failed: FailedModel[];
}

/** What of a node's details changes when the cursor gets to `from_step`, and stays so. */
export interface StageModel {
  from_step: Count;
  /** Some of the fields of its `DetailsModel`. */
  fields: Record<string, unknown>;
}

/** What is wrong, or only worth knowing; docs/findings.md explains each. */
export type FindingKind = "vanishing" | "exploding" | "dead" | "nan" | "no grad" | "cut" | "memory" | "no backward" | "failed" | "zero" | "frozen" | "leaf" | "unregistered" | "tied" | "optimizer" | "accumulated" | "clipped" | "changed" | "eval" | "broadcast" | "softmax twice" | "sigmoid twice" | "no log probabilities" | "target" | "large" | "cleared" | "freed" | "not a leaf" | "dominated" | "unused on a rank" | "not reduced" | "drifted" | "nan on a rank" | "large on a rank" | "not alike" | "same batch" | "ranks";

export type Severity = "error" | "warning" | "info";

/** Something about the graph or its gradients that may be wrong, and the numbers it rests on. */
export interface FindingModel {
  kind: FindingKind;
  severity: Severity;
  nodes: NodeId[];
  /** Whole sentences, with the numbers they rest on. */
  message: string;
  numbers: NumberModel[];
}

/** A number that a finding rests on, and what it is. */
export interface NumberModel {
  name: string;
  value: RealNumber;
}

/**
 * The bytes held for backward; nodes and namespaces that hold none are left out. `nodes` and
 * `bytes` are aligned, and so are `namespaces` and `namespace_bytes`, which counts the nodes
 * directly in a namespace. `unknown` is how many tensors have an unknown size.
 */
export interface MemoryModel {
  nodes: AutogradNodeId[];
  /** One per entry of `nodes`. */
  bytes: Count[];
  namespaces: string[];
  /** One per entry of `namespaces`: of the nodes directly in it. */
  namespace_bytes: Count[];
  total: Count;
  /** How many tensors have an unknown size. */
  unknown: Count;
}

/** A change to a gradient on its way. The trait `edits` is a list of these. */
export interface EditModel {
  kind: "cut" | "scale" | "replace";
  /**
   * [consumer, input_nr], with the ids of the graph; or the name of a tensor, for all edges that
   * flow to it, as one. User text.
   */
  edge: number[] | string;
  /** The factor; the numbers that replace the gradient; null of a cut. */
  value: Values | null;
  /** What the reader calls it; edits of one name are one, compared with those of another. User text. */
  name: string | null;
  /** Whether it is not made now: it is only listed and, by its name, compared. */
  off: boolean;
}

/** What an edit does. */
export interface EditedModel {
  /** Where it is, "out → h". User text. */
  label: string;
  /** What flows there; null for nothing, and for both where it is off. */
  was: FewModel | null;
  now: FewModel | null;
}

/** The gradient of a leaf with the edits of one name alone. */
export interface NamedChangeModel {
  after: FewModel | null;
  /** Whether it is another than without edits. */
  changed: boolean;
}

/** The gradient of a leaf without and with the edits. */
export interface LeafChangeModel {
  node: AutogradNodeId;
  /** User text. */
  name: string | null;
  before: FewModel | null;
  after: FewModel | null;
  /** After minus before; null where they are the same. */
  difference: FewModel | null;
  /** The part of it that is left, as a norm over a norm; null of nothing. */
  rest: number | null;
  /** The same with the edits of each of `names` alone. */
  named: NamedChangeModel[];
}

/** What the edits do. */
export interface WhatIfModel {
  /** A sentence where it could not be worked out; the rest is then empty. */
  failed: string | null;
  edits: EditedModel[];
  /** The first of them, those that change before all others. */
  leaves: LeafChangeModel[];
  leaf_count: Count;
  /** Of the edits that are compared, in order; none where there are not two. User text. */
  names: string[];
  /** The nodes below an edit, which ran again or got another gradient. */
  reached: AutogradNodeId[];
  /** How many of the graph's nodes ran again. */
  ran: Count;
  /** The change of the program that does it for real. User text. */
  code: string;
  notes: string[];
}

/** How much of a node's gradient came along one edge, in the backward pass that is shown. */
export interface ShareModel {
  consumer: AutogradNodeId;
  input_nr: Count;
  /** What passed it on. User text. */
  label: string;
  /** Along the gradient's own direction: those of a node add up to 1. */
  share: number;
}

/** The result of `check` for the node of a custom Function. */
export interface CheckedModel {
  node: AutogradNodeId;
  agrees: boolean;
  sentence: string;
}

/** A number that became another. */
export interface ChangeModel {
  /** User text. */
  name: string;
  was: JsonNumber;
  now: JsonNumber;
}

/** What became of the graph that was shown before. */
export interface UpdateModel {
  /** How many updates there were. */
  number: Count;
  /**
   * Per node, which it was in the graph before; null of a new one. null as a whole where the
   * structure is equal, so that nothing moves.
   */
  before: (number | null)[] | null;
  /** What changed of the structure; "" where the same graph is opened or closed. User text. */
  words: string;
  /** Leaves and outputs that hold another number. */
  changes: ChangeModel[];
}

/** A number of a leaf, which can be set in the picture, like with a slider. */
export interface KnobModel {
  node: AutogradNodeId;
  /** User text. */
  name: string;
  /** Which number of the leaf it is, a place for each dimension. */
  at: Count[];
  min: number;
  max: number;
  step: number;
}

/** What a finite difference says of the gradient of a leaf. */
export interface DifferenceModel {
  node: AutogradNodeId;
  /** "Δloss/Δw". User text. */
  quotient: string;
  value: JsonNumber;
  /** Whether it says the same as the gradient. */
  agrees: boolean;
}

/** What the reader is asked at one node. */
export interface QuestionModel {
  node: AutogradNodeId;
  /** What the node is called. User text. */
  name: string;
  state: "open" | "wrong" | "right" | "revealed";
  /** After a wrong answer, what may help. User text. */
  hint: string | null;
  /** The number, once it is right or revealed. */
  answer: string | null;
}

/** What the reader is asked. */
export interface QuizModel {
  what: "grad" | "value" | "order";
  questions: QuestionModel[];
}

/** How the reader fares; a question answered wrongly first, and then rightly, is right. */
export interface ScoreModel {
  right: Count;
  /** Answers that were wrong. */
  wrong: Count;
  revealed: Count;
  of: Count;
}

/** What takes a while on a large graph; null or left out while it is not known. */
export interface AskedTraits {
  _memory?: MemoryModel | null;
  _dtypes?: DtypesModel | null;
  findings?: FindingModel[] | null;
}

/** What is asked of a graph's gradients; left out where nobody can. */
export interface LaboratoryTraits {
  /** What is changed about gradients on their way, in order. Either side sets it. */
  edits?: EditModel[];
  /** What comes of that; null without edits. */
  what_if?: WhatIfModel | null;
  /** What a check of a custom backward found, once one was asked for. */
  _checked?: CheckedModel | null;
  /** Of the selected node's gradient, the largest first; none where it has no parts. */
  _shares?: ShareModel[];
}

/** What a graph has that follows what happens; null or left out of one that does not. */
export interface LiveTraits {
  /** What became of the graph that was shown before. */
  _update?: UpdateModel | null;
  /** What the nodes of `graph` hold now, instead of what stands in it; null when that is so. */
  _values?: (Values | null)[] | null;
  /** The nodes that can be opened and closed. */
  _openable?: NodeId[] | null;
  /**
   * A cursor, and after how many of the calls inside of the open node that ran there we stand; 0 of
   * them after all of its step. It says nothing of another cursor. Either side sets it.
   */
  _inner?: Count[];
  /** The leaves whose numbers can be set in the picture. */
  _knobs?: KnobModel[] | null;
  /** What finite differences say of leaves, once that was asked. */
  _differences?: DifferenceModel[] | null;
  /** What the reader is asked now. */
  _quiz?: QuizModel | null;
  /** How the reader fares in it. */
  score?: ScoreModel | null;
  /** Of a graph of several ranks, whose numbers are shown. Either side sets it. */
  rank?: number | null;
  /** Those that can be shown instead; none where nobody could show them. */
  _ranks?: Count[];
}

/** Those of a graph and of a comparison alike. */
export interface SharedTraits {
  /** A sentence from Python to be shown as an error. */
  _fault: string | null;
  /** A node; in a comparison a place in `members`. */
  selected: number | null;
  direction: DirectionChoice;
  /** Whether operands that need no grad, and cuts, are drawn. */
  constants: boolean;
  /** How many steps of the recorded backward have run in what is shown. */
  cursor: number;
}

/** Those of a graph. */
export interface Traits extends SharedTraits, AskedTraits, LaboratoryTraits, LiveTraits {
  graph: GraphModel;
  /** Of the selected node; while none is, of the node that runs. */
  details: DetailsModel | null;
  state: StateModel;
  steps: StepModel[];
  run: RunModel | null;
  transport: TransportModel;
}

/** Those of a comparison. */
export interface CompareTraits extends SharedTraits {
  panes: PaneModel[];
  /** For each node of all graphs laid on top of each other its number in each graph, or null. */
  members: ((number | null)[])[];
  /** One per pane; null where the selected node is not. */
  details: (DetailsModel | null)[];
  /** One per pane. */
  passes: PassModel[];
  steps: MergedStepModel[];
  table: LeafTableModel;
  /** How far the numbers of two graphs are apart; null where none were compared. */
  errors: ErrorsModel | null;
  compiled: CompiledModel[];
}

/** Runs the real backward once and records it, then puts the cursor there; null for the end. */
export interface StartMessage {
  kind: "start";
  cursor: number | null;
}

/** Asks for what is not told unasked, because it takes a while on a large graph. */
export interface AskMessage {
  kind: "memory" | "diagnose";
}

/** The reader set a number of a leaf in the picture. */
export interface TurnMessage {
  kind: "turn";
  node: AutogradNodeId;
  at: Count[];
  value: number;
}

/** Shows what is inside of a node in its place, or hides it again. */
export interface OpenMessage {
  kind: "expand" | "collapse";
  node: NodeId;
}

/** Asks whether the backward of a custom Function is right. */
export interface CheckMessage {
  kind: "check";
  node: AutogradNodeId;
}

/** The reader answered at a node: with what was typed, or null for a click on it. */
export interface AnswerMessage {
  kind: "answer";
  node: AutogradNodeId;
  text: string | null;
}

/** The reader gave up at a node, or the whole quiz: null. */
export interface RevealMessage {
  kind: "reveal";
  node: AutogradNodeId | null;
}

/** One output of a saved node. */
export interface SavedOutput {
  output_nr: Count;
  name: string | null;
  shape: Count[] | null;
  dtype: string | null;
  device: string | null;
}

/** A number that is written into a static program in place of an operand. */
export interface SavedNumber {
  input_nr: Count;
  argument: string | null;
  value: string;
}

/** What the captured graph says of every node, beyond what is drawn. */
export interface SavedEveryNode {
  dtype: string | null;
  device: string | null;
  requires_grad: boolean | null;
  is_leaf: boolean;
  outputs: SavedOutput[];
}

/** What it says of some nodes: of those that were watched, inferred, or are of a program. */
export interface SavedNode extends SavedEveryNode {
  sequence_nr?: number | null;
  source?: string | null;
  namespace?: string | null;
  call?: string | null;
  how?: string | null;
  value?: string | null;
  inplace?: boolean;
  inferred?: boolean;
  checkpoint?: CheckpointPlace | null;
  fx_name?: string;
  called?: string | null;
  numbers?: SavedNumber[];
  seq_nr?: number | null;
  /** Of several ranks not the one that is shown has it, but others do. */
  ranks?: "others";
}

/** What the captured graph says of every edge, beyond what is drawn. */
export interface SavedEveryEdge {
  key: Count;
}

/** What it says of some edges. */
export interface SavedEdge extends SavedEveryEdge {
  how?: string | null;
  /** Of several ranks the one that is shown has it and some do not, or others alone have it. */
  ranks?: "some" | "others";
}

/** What the graph as a whole says. */
export interface SavedRoot {
  roots: Count[][];
  torch_version: string;
}

/** What a static graph says as a whole; see `gradwalk.capture`. */
export interface SavedStaticRoot extends SavedRoot {
  root_names: (string | null)[];
  static: boolean;
  made_by: "torch.export" | "torch.fx";
}

/** What the captured graph has beyond what is drawn: see `gradwalk.schema.graph_json`. */
export interface SavedNetwork {
  graph: SavedStaticRoot | SavedRoot;
  nodes: SavedNode[];
  edges: SavedEdge[];
}

/** Everything in the file. */
export interface SavedGraphModel {
  format: "gradwalk";
  version: number;
  graph: GraphModel;
  network: SavedNetwork;
  dtypes: DtypesModel;
  watched: boolean;
  memory: MemoryModel;
  findings: FindingModel[];
  direction: DirectionChoice;
  constants: boolean;
  selected: NodeId | null;
  cursor: Count;
  /**
   * After how many of the calls inside of the open node that the last step ran; 0 after all of the
   * step.
   */
  inner: Count;
  state: StateModel;
  steps: StepModel[];
  run: RunModel | null;
  transport: TransportModel;
  /** Of each node; null of one whose details were not saved. */
  details: (StageModel[] | null)[];
  /** What there is to say of the first node without details, and like it of the others. */
  undetailed: DetailsModel | null;
  /** Whether the details are true at every cursor, or only at the one saved. */
  all_cursors: boolean;
}
