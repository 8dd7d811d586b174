// Written by tools/wire_types.py from src/gradwalk/schema. Do not edit: `make types`.

export const DIRECTIONS = ["down", "right", "up", "left"] as const;

export const PLUMBING = ["AliasBackward0", "AsStridedBackward0", "CloneBackward0", "CopyBackwards", "DiagonalBackward0", "ExpandBackward0", "LiftBackward0", "PermuteBackward0", "RepeatBackward0", "ReshapeAliasBackward0", "SelectBackward0", "SliceBackward0", "SplitBackward0", "SplitWithSizesBackward0", "SqueezeBackward0", "SqueezeBackward1", "SqueezeBackward2", "SqueezeBackward3", "SqueezeBackward4", "SqueezeBackward5", "TBackward0", "ToCopyBackward0", "TransposeBackward0", "TransposeBackward1", "UnbindBackward0", "UnfoldBackward0", "UnsafeSplitBackward0", "UnsafeSplitWithSizesBackward0", "UnsafeViewBackward0", "UnsqueezeBackward0", "UnsqueezeBackward1", "ViewAsComplexBackward0", "ViewAsRealBackward0", "ViewBackward0"] as const;

/** The direction of gradients in the drawing. */
export type Direction = "down" | "right" | "up" | "left";

/** A direction, or "auto": the one that shows most of the graph at once. */
export type DirectionChoice = "auto" | "down" | "right" | "up" | "left";

/** An integer from 0. */
export type Count = number;

/** A node: its index in `nodes`. */
export type NodeId = number;

/** An autograd node; these come first in `nodes`. */
export type AutogradNodeId = number;

/** An edge: its index in `edges`. */
export type EdgePlace = number;

/** An edge that can carry gradients; these come first in `edges`. */
export type GradientEdgePlace = number;

/** A checkpointed region: its index in `checkpoints`. */
export type CheckpointPlace = number;

/** A number in JSON: integers beyond 2**53, NaN and infinities are strings. */
export type JsonNumber = number | string;

/** A `JsonNumber` that is not complex. */
export type RealNumber = number | string;

/** The values of a tensor: nested lists, one level per dimension; a bare value for a 0-dim one. */
export type Values = JsonNumber | boolean | Values[];

/** A number, flag, text, null, or nested lists of them. */
export type Plain = unknown;

/** The kind of a node; only leaves and operations are autograd nodes. */
export type Kind = "leaf" | "op" | "call" | "constant" | "cut" | "outside";

export type EdgeKind = "gradient" | "constant" | "cut";

export type NodeState = "waiting" | "ready" | "running" | "done" | "not reached";

/** An operand that does not require grad: a `None` in `next_functions`. */
export interface NoGradInput {
  arg_nr: Count;
  argument: string | null;
}

/** A node, with the fields that the drawing needs. The autograd nodes come first. */
export interface NodeModel {
  /** Index in `nodes`; breadth-first from the outputs. */
  id: NodeId;
  /**
   * The autograd nodes ("op", "leaf") come first, then the calls of compiled code or of a custom
   * Function's backward. A constant is an operand that does not require grad. A cut is one that was
   * detached from the graph. "outside" is a tensor of another graph that was cut.
   */
  kind: Kind;
  /**
   * The node's class name in torch, "MulBackward0"; "AccumulateGrad" for a leaf. For a cut, the code
   * that made it, "x.detach()". User text.
   */
  op: string;
  /**
   * The operation's symbol, "+", "× 2", "x²", "conv2d 3×3"; null for other nodes. For a leaf, the
   * collective before each use, such as "all-gather" under FSDP2.
   */
  sign: string | null;
  /** For an unnamed constant of one number, the operation whose symbol contains it. */
  said_by: NodeId | null;
  /** The text on the node: its name if it has one, else its op. User text. */
  label: string;
  /** The program's name for the tensors that this node made, or null. User text. */
  name: string | null;
  /** Shape of the first output (op) or of the tensor (leaf); null if unknown. */
  shape: Count[] | null;
  no_grad_inputs: NoGradInput[];
  /**
   * The module that ran the operation, "encoder/layers/0"; "" for the outermost module and for nodes
   * outside all modules. null where unknown: the node is drawn with its consumer. Groups of
   * operations outside modules have a box of their own: "balancing_loss()", "loss = …".
   */
  namespace: string | null;
  /**
   * Its value, if known and of at most 16 numbers; in a static graph, a number as the program has
   * it.
   */
  value: Values | null;
  /**
   * Whether a leaf was changed in place after operations used it and the used value is unknown. null
   * where this is possible; `value` is the current value then.
   */
  changed: boolean | null;
  /** Whether the node (constant or cut) or its namespace (autograd node) is inferred, not watched. */
  inferred: boolean;
  /** The innermost checkpointed region that contains it. */
  checkpoint: CheckpointPlace | null;
  /** For a call and its operands, the opened node that contains them. */
  inside: NodeId | null;
  /** Whether it is a call of the forward pass that backward recomputes. */
  recomputed: boolean;
  /** Whether it ran inside backward (`create_graph=True`), which `watch` does not see. */
  in_backward: boolean;
}

/**
 * An edge from a node to the producer of one of its inputs: the direction of gradients. Edges that
 * carry gradients come first: those between autograd nodes, then those inside opened nodes. An
 * edge inside leads to a call that takes the gradient as its operand `output_nr`.
 */
export interface EdgeModel {
  source: NodeId;
  target: NodeId;
  /** The forward argument of the source, "self", "mat2"; null if unknown. */
  argument: string | null;
  /** null where unknown; never for an edge that carries gradients. */
  arg_nr: Count | null;
  /** The output of the target that is this input. */
  output_nr: Count;
  /**
   * The other two kinds carry no gradient: from an operation to a constant, and from a cut to its
   * source.
   */
  kind: EdgeKind;
  /** The call inside an opened source that produces this gradient; null for other edges. */
  via: NodeId | null;
}

/** One tensor that was passed to the widget. */
export interface RootModel {
  node: NodeId;
  output_nr: Count;
  name: string | null;
}

/** The classes of modules; `classes` has one index into `names` per namespace. */
export interface ModulesModel {
  namespaces: string[];
  classes: Count[];
  names: string[];
}

/** A checkpointed region, which backward recomputes. */
export interface CheckpointModel {
  /** The enclosing region. */
  parent: CheckpointPlace | null;
  /** The namespace of its box; null where its operations have no box of their own. */
  box: string | null;
  /** Such as "saves 38 MiB"; empty where unknown. */
  saves: string;
  /** A sentence or two. */
  about: string;
}

/**
 * A derivative that the program computed: `node` is the derivative of `of`. It is not an edge of
 * the graph.
 */
export interface DerivativeModel {
  node: AutogradNodeId;
  of: AutogradNodeId;
}

/** The gradient norms at a node on the ranks of a run: a strip of bars. */
export interface NodeRanksModel {
  node: AutogradNodeId;
  /** The largest finite norm on the ranks of each bar, in four digits; null without one. */
  most: (JsonNumber | null)[];
  /** The smallest; null where each bar is one rank. */
  least: (JsonNumber | null)[] | null;
  /** Indices of the bars with a NaN or infinite gradient. */
  not_finite: Count[];
  /** Indices of the bars with a rank without a gradient. */
  without: Count[];
  /** Indices of the bars whose ranks run another program, such as another pipeline stage. */
  beyond: Count[];
  /** Indices of the bars with a rank that differs from most. */
  odd: Count[];
  /** The ranks that have the node, unless all have it: "only on rank 0". */
  only: string | null;
  /** Whether the shown rank has it. */
  here: boolean;
}

/** An edge that some ranks lack. */
export interface EdgeRanksModel {
  edge: EdgePlace;
  /** Whether the shown rank has it. */
  here: boolean;
}

/** Nodes of other ranks that are not drawn, because there are too many different graphs. */
export interface ElsewhereModel {
  /** The first of these ranks. */
  rank: Count;
  /** All of them: "ranks 1 and 3". */
  ranks: string;
  /** Number of autograd nodes on each that are not drawn. */
  count: Count;
  /** Names of the first few leaves among them. User text. */
  names: string[];
}

/** The ranks of a run. */
export interface RanksModel {
  /** The shown rank. */
  shown: Count;
  count: Count;
  /** The first rank of each bar; with many ranks, one bar covers several. */
  first: Count[];
  last: Count[];
  /** The autograd nodes with bars. */
  nodes: NodeRanksModel[];
  /** Edges that some ranks lack. */
  edges: EdgeRanksModel[];
  /** The first few of the graphs that are not drawn. */
  elsewhere: ElsewhereModel[];
}

/** The planned memory and work of a step on fake tensors. */
export interface PlanModel {
  summary: string;
  /** Live bytes along the step, forward first: the most of each of a few hundred stretches. */
  live: Count[];
  /** The node that made or ran the operation at each point. */
  nodes: (AutogradNodeId | null)[];
  /** The place of each point. */
  words: string[];
  /** The bytes of each role at each point, and the largest tensors. */
  held: string[];
  /** Number of points in the forward pass. */
  forward: Count;
  /** Number of points in the backward pass; the points of the optimizer's step come last. */
  backward: Count;
  /** The point of the peak. */
  peak: Count;
  /** The namespaces of the blocks that the last advice would checkpoint. */
  advised: string[];
}

/** Numbers of the nodes that colours show: of the user's own, planned or measured. */
export interface OverlayModel {
  label: string;
  /** Seconds "s", "FLOP" and bytes "B" are written with prefixes; other text as it is. */
  unit: string;
  nodes: NodeId[];
  /** One per entry of `nodes`. */
  values: JsonNumber[];
  /** Boxes that have a number of their own, by namespace. */
  modules: string[];
  /** One per entry of `modules`. */
  module_values: JsonNumber[];
  /** Whether other boxes show the sum of their nodes, not the largest. */
  adds_up: boolean;
  /** Whether it colours the picture until the reader chooses another meaning. */
  is_shown: boolean;
}

/** The graph that the browser draws. */
export interface GraphModel {
  /** Whether it is a static graph: a program that has not run, without gradients. */
  static: boolean;
  modules: ModulesModel;
  nodes: NodeModel[];
  edges: EdgeModel[];
  roots: RootModel[];
  /** Each region comes after its enclosing one. */
  checkpoints: CheckpointModel[];
  /** Each pair once. */
  derivatives: DerivativeModel[];
  /** null unless the files of several ranks were loaded. */
  ranks: RanksModel | null;
  /** null unless `gradwalk.plan` made the graph. */
  plan: PlanModel | null;
}

/** The dtype of every node. */
export interface DtypesModel {
  /** Such as "float32". */
  names: string[];
  /** Per graph node, the index of its dtype in `names`; -1 if unknown. */
  nodes: number[];
}

/** The state of backward. It changes while the graph stays the same. */
export interface StateModel {
  /** Number of backward passes recorded through this graph. */
  runs: Count;
  /** Nodes that received a gradient in the last pass. */
  reached: AutogradNodeId[];
  /** Indices in `edges` of the edges that carried a gradient in the last pass. */
  flowed: GradientEdgePlace[];
  /** Nodes whose saved tensors torch has freed: a second backward through them fails. */
  freed: AutogradNodeId[];
  /** The `.grad` of leaves. Empty while a pass is shown, which has them itself. */
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
  /** The `.grad` that this step adds to, "x.grad"; null when it stores nothing. User text. */
  accumulated: string | null;
  /** Number of steps after which all gradients of this node had arrived. */
  ready: Count;
}

/** The gradient that backward started from at one output. */
export interface SeedModel {
  node: AutogradNodeId;
  output_nr: Count;
  values: Values | null;
  norm: JsonNumber | null;
}

/** A gradient's norm, and its values if there are at most six. */
export interface FewModel {
  values: Values | null;
  norm: JsonNumber | null;
}

/** The `.grad` of a leaf. */
export interface HeldModel extends FewModel {
  node: AutogradNodeId;
}

/** The `.grad` of a leaf or of a tensor with `retain_grad()`, after a node's step. */
export interface GrownModel extends HeldModel {
  /** The `.grad` before the pass; null when it was null. */
  before: FewModel | null;
  /** Whether something has changed it since, such as clipping or `zero_grad()`. */
  changed: boolean;
  /** If changed, the `.grad` now; null when it is null. */
  now: FewModel | null;
}

/** The total gradient of a node's output, where it differs from the gradient of one edge. */
export interface ArrivedModel {
  node: AutogradNodeId;
  values: Values | null;
  norm: JsonNumber | null;
}

/** A node where backward failed or produced NaN, and a sentence about it. */
export interface MarkModel {
  node: AutogradNodeId;
  kind: "error" | "nan";
  note: string;
}

/**
 * The gradients of the backward pass that is shown. `edges`, `values` and `norms` have one entry
 * per edge that carried a gradient.
 */
export interface RunModel {
  run: Count;
  ended: "done" | "stopped";
  seeds: SeedModel[];
  /** Indices in `edges` of the graph. */
  edges: GradientEdgePlace[];
  /** The values of each gradient with at most six; null for a larger one. */
  values: (Values | null)[];
  norms: (JsonNumber | null)[];
  /** For nodes with several incoming edges, or with a hook that changed the gradient. */
  arrived: ArrivedModel[];
  grads: GrownModel[];
  marks: MarkModel[];
}

/** Whether moving the cursor changes `.grad`, and the messages beside the controls. */
export interface TransportModel {
  owned: boolean;
  note: string | null;
  /** Why backward cannot run; null when it can. */
  blocked: string | null;
}

/** One of the graphs of a comparison. */
export interface PaneModel {
  /** User text. */
  label: string;
  graph: GraphModel;
}

/** The recorded backward pass of one graph of a comparison. */
export interface PassModel {
  state: StateModel;
  steps: StepModel[];
  run: RunModel | null;
  transport: TransportModel;
}

/** One step of several passes; `node` is an index in the trait `members`. */
export interface MergedStepModel {
  node: number;
  /** The passes that run the node in this step. */
  passes: number[];
}

/** A leaf in one graph; `node` is an index in `members`, null where the graph lacks it. */
export interface LeafCellModel {
  node: number | null;
  requires_grad: boolean | null;
  is_leaf: boolean | null;
  /** The `.grad` before backward, if there was one. */
  before: FewModel | null;
  now: FewModel | null;
}

/** A leaf in all graphs. */
export interface LeafRowModel {
  /** User text. */
  name: string | null;
  cells: LeafCellModel[];
}

/** The leaves of all graphs; `total` also counts omitted rows. */
export interface LeafTableModel {
  rows: LeafRowModel[];
  total: number;
}

/** The compiled counterpart of an operation; all numbers are indices in `members`. */
export interface CompiledOperationModel {
  place: Count;
  /** Whether it has one call, several, none (removed by the compiler) or no known counterpart. */
  how: "one" | "several" | "dropped" | "unknown";
  calls: Count[];
  /** Calls of its forward pass that backward recomputes. */
  again: Count[];
  /** User text, like `where`. */
  label: string;
  /** Its module and line, if known. */
  where: string;
  /** A sentence about the counterpart. */
  sentence: string;
}

/** An opened compiled node, compared with the same program without compilation. */
export interface CompiledModel {
  /** A summary. */
  sentence: string;
  operations: CompiledOperationModel[];
  /** Calls that accumulate gradients, as the engine does between nodes. */
  adding: Count[];
  /** Calls without a known counterpart. */
  others: Count[];
}

/** The error between two graphs at a node; `place` is an index in `members`. */
export interface ErrorModel {
  place: Count;
  /** Relative error, like `grad`; null where unknown. */
  value: JsonNumber | null;
  grad: JsonNumber | null;
  /** Which of the two exceeds the tolerance first. */
  leaves: "value" | "gradient" | null;
}

/** The numerical errors between two graphs: see `gradwalk.compare_numerics`. */
export interface ErrorsModel {
  /** A summary. */
  sentence: string;
  /** The first index out of tolerance. */
  first: Count | null;
  nodes: ErrorModel[];
}

/** A tensor's statistics and at most 64 of its values. */
export interface TensorSummary {
  shape: Count[];
  dtype: string;
  device: string;
  numel: Count;
  /** At most 64 numbers, evenly spaced when the tensor has more; null when it has no readable ones. */
  values: Values | null;
  truncated: boolean;
  /** The indices of `values` along each dimension, when truncated. */
  indices: Count[][] | null;
  min: JsonNumber | null;
  max: JsonNumber | null;
  mean: JsonNumber | null;
  norm: JsonNumber | null;
  /** Number of NaN values; `inf` and `zeros` are counts, too. */
  nan: Count | null;
  inf: Count | null;
  zeros: Count | null;
  /** A sentence about a special tensor (meta, sparse, not kept ...). */
  note: string | null;
}

/** The forward value of a node, and a sentence about its origin. */
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
  /** Whether this tensor was passed to the widget. */
  is_root: boolean;
}

/** One outgoing edge of a node. */
export interface InputModel {
  arg_nr: Count;
  argument: string | null;
  node: NodeId;
  output_nr: Count;
  label: string;
  shape: Count[] | null;
}

/** One incoming edge of a node. */
export interface ConsumerModel {
  node: NodeId;
  arg_nr: Count | null;
  argument: string | null;
  output_nr: Count;
  label: string;
}

/** A saved tensor's summary, or another saved value. */
export interface SavedModel {
  name: string;
  summary: TensorSummary | null;
  /** A number, flag, text or list that is not a tensor. */
  scalar: Plain;
  freed: boolean;
  note: string | null;
}

/** One consumer's contribution to the incoming gradient of a node, and the sum so far. */
export interface ContributionModel {
  step: Count;
  /** null for the initial gradient of backward. */
  consumer: NodeId | null;
  label: string;
  arg_nr: Count | null;
  argument: string | null;
  output_nr: Count;
  grad: TensorSummary | null;
  total: TensorSummary | null;
}

/** The derivative with respect to one input, as code; `source` says who wrote it. */
export interface FormulaModel {
  arg_nr: Count;
  argument: string | null;
  code: string;
  /** `code` with the numbers inserted. */
  numbers: string | null;
  source: "gradwalk" | "torch";
  /** Whether `code` ran with the numbers of the shown pass and gave the gradient passed on. */
  checked: boolean;
  note: string | null;
}

/** One edge of a path from an output to a leaf, and its derivative. */
export interface FactorModel {
  edge: EdgePlace;
  node: NodeId;
  target: NodeId;
  code: string;
  value: Values | null;
  note: string | null;
}

/** One path from an output to a leaf. */
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

/** One sentence for each gradient that is null. */
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

/** A drawn operand of a node that does not require grad. */
export interface ConstantModel {
  node: NodeId;
  argument: string | null;
  arg_nr: Count | null;
  label: string;
  shape: Count[] | null;
}

/** Where the graph was cut before an operand, and the node of the tensor before the cut. */
export interface CutModel {
  /** Such as "detach", "no_grad" or "integer cast". */
  how: string;
  node: NodeId;
  label: string;
  line: SourceModel | null;
  /** Where grad mode was disabled. */
  region: SourceModel | null;
}

/** The source code of a custom `autograd.Function`'s backward. */
export interface FunctionModel {
  /** "Cube.backward". User text. */
  method: string;
  /** Its first line. */
  place: SourceModel | null;
  /** Its source; empty where unknown. User text. */
  code: string;
  /** Why it is unknown. */
  note: string | null;
}

/** One operation that a backward ran. */
export interface OperationModel {
  /** Its name in torch, "aten.mul.Tensor". */
  called: string;
  /** The node of a nested backward pass that called it. */
  behind: string | null;
  gave: TensorSummary | null;
}

/** A part of the details that could not be computed, and a sentence why. */
export interface FailedModel {
  part: string;
  sentence: string;
}

/** The gradient of a leaf on one rank; all null where its graph lacks the leaf. */
export interface RankGradModel {
  rank: Count;
  /** The rank's own gradient, before the reduction. */
  local: TensorSummary | null;
  /** Its `.grad`; under FSDP2 the rank's shard. */
  reduced: TensorSummary | null;
  /**
   * `local - reduced`; under FSDP2 of the shard. null where the rank did not have the values of both
   * when it saved.
   */
  difference: TensorSummary | null;
  /** Its DistributedDataParallel bucket, from 0; null where DDP's log does not have it. */
  bucket: Count | null;
  /** Its position, from 0, in the order in which the gradients were ready. */
  ready: Count | null;
  /**
   * Whether it differs from most ranks. A local gradient is NaN, infinite or missing where most are
   * not, or the other way round. With three or more ranks, also if its norm is over 10 times the
   * median or under a tenth of it. A reduced gradient has a value that most ranks lack.
   */
  odd: boolean;
}

/**
 * Everything the panel shows about the selected node. Each list has the first 100 entries; the
 * counts cover all. `input_count` counts `inputs`, `no_grad_inputs` and `constants`.
 */
export interface DetailsModel {
  id: NodeId;
  kind: Kind;
  op: string;
  name: string | null;
  /** A sentence or two about this node. */
  about: string;
  /** The signature of the forward operation, from the installed torch. */
  forward: string | null;
  shape: Count[] | null;
  dtype: string | null;
  device: string | null;
  /** null, like `is_leaf`, where a static graph does not record it. */
  requires_grad: boolean | null;
  is_leaf: boolean | null;
  outputs: OutputModel[];
  output_count: Count;
  saved: SavedModel[];
  saved_count: Count;
  inputs: InputModel[];
  input_count: Count;
  no_grad_inputs: NoGradInput[];
  consumers: ConsumerModel[];
  consumer_count: Count;
  /** The output of the operation, or the value of the leaf or constant. */
  value: ValueModel | null;
  /** Why the value is unknown, where this needs an explanation. */
  value_note: string | null;
  grad: TensorSummary | null;
  /** One per output of the node. */
  grad_output: (TensorSummary | null)[] | null;
  /** One per entry of `inputs`. */
  grad_input: (TensorSummary | null)[] | null;
  grad_note: GradNotes;
  state: NodeState;
  /** Each consumer's contribution to the incoming gradient; null when no pass is shown. */
  contributions: ContributionModel[] | null;
  contribution_count: Count;
  formula: FormulaModel[];
  /** For a leaf, and for a scalar in a small graph. */
  chain: ChainModel | null;
  /** The line that created it. This and the next fields need `watch()` or inference. */
  source: SourceModel | null;
  /** Such as "encoder.layers.0.linear1"; the class name for the outermost module. User text. */
  module: string | null;
  /** The forward function, "torch.nn.functional.linear". User text. */
  call: string | null;
  inplace: boolean;
  inferred: boolean;
  /** A sentence about its recomputation in backward, and the memory saved by that. */
  checkpoint: string | null;
  /** Operands that are drawn as constants or cuts; `no_grad_inputs` has the others. */
  constants: ConstantModel[];
  /** Empty for every node that is not a cut. */
  cuts: CutModel[];
  function: FunctionModel | null;
  /** Operations of a custom Function's backward; empty where they were not recorded. */
  operations: OperationModel[];
  operation_count: Count;
  /** `explain_grad`'s sentence about the `.grad` of a leaf. */
  explained: string | null;
  /** The gradient of a leaf on each rank, where files of several ranks were loaded. */
  ranks: RankGradModel[];
  failed: FailedModel[];
}

/** The fields of `DetailsModel` that may be missing. */
export const DETAILS_DEFAULTS = {
  name: null,
  forward: null,
  shape: null,
  dtype: null,
  device: null,
  requires_grad: null,
  is_leaf: null,
  outputs: [],
  saved: [],
  inputs: [],
  no_grad_inputs: [],
  consumers: [],
  value: null,
  value_note: null,
  grad: null,
  grad_output: null,
  grad_input: null,
  contributions: null,
  formula: [],
  chain: null,
  source: null,
  module: null,
  call: null,
  inplace: false,
  inferred: false,
  checkpoint: null,
  constants: [],
  cuts: [],
  function: null,
  operations: [],
  explained: null,
  ranks: [],
  failed: [],
} satisfies Partial<DetailsModel>;

/** The details of a node that change when the cursor reaches `from_step`. */
export interface StageModel {
  from_step: Count;
  /** Some of the fields of its `DetailsModel`. */
  fields: Record<string, unknown>;
}

/** The kind of a finding; docs/reference/findings.md explains each. */
export type FindingKind = "vanishing" | "exploding" | "dead" | "nan" | "no-grad" | "cut" | "memory" | "held" | "no-backward" | "failed" | "zero" | "frozen" | "leaf" | "unregistered" | "tied" | "optimizer" | "accumulated" | "clipped" | "changed" | "eval" | "broadcast" | "softmax-twice" | "sigmoid-twice" | "no-log-probabilities" | "target" | "large" | "cleared" | "freed" | "not-a-leaf" | "backward-failed" | "shared-module" | "unused-backward" | "changed-gradient" | "repeated-index" | "constant-term" | "scaled" | "padding" | "dominated" | "mixed-rows" | "shared-memory" | "alike" | "step" | "counting" | "recomputed" | "unused-result" | "unused-on-rank" | "not-reduced" | "drifted" | "nan-on-rank" | "large-on-rank" | "not-alike" | "same-batch" | "ranks";

export type Severity = "error" | "warning" | "info";

/** A possible problem of the graph or its gradients, with its evidence. */
export interface FindingModel {
  kind: FindingKind;
  severity: Severity;
  nodes: NodeId[];
  /** Whole sentences, with the numbers. */
  message: string;
  numbers: NumberModel[];
  /** The path of the module it is about. User text. Files before version 19 lack it. */
  module: string | null;
  /** Such as "train.py:12". */
  line: string | null;
}

/** A number that supports a finding, and its name. */
export interface NumberModel {
  name: string;
  value: RealNumber;
}

/** The bytes held for backward; nodes without any are omitted. */
export interface MemoryModel {
  nodes: AutogradNodeId[];
  /** One per entry of `nodes`. */
  bytes: Count[];
  total: Count;
  /** Number of tensors of unknown size. */
  unknown: Count;
}

/** A change of a gradient on an edge. The trait `edits` is a list of these. */
export interface EditModel {
  kind: "cut" | "scale" | "replace";
  /**
   * [consumer, arg_nr] with the graph's ids; or a tensor's name, for all edges into it as one. User
   * text.
   */
  edge: number[] | string;
  /** The factor, or the values that replace the gradient; null for a cut. */
  value: Values | null;
  /** The reader's name for it. Edits with the same name form a group; groups are compared. User text. */
  name: string | null;
  /** Whether the edit is disabled: listed and compared by its name, but not applied. */
  off: boolean;
}

/** The effect of an edit on its edge. */
export interface EditedModel {
  /** Its edge, "out → h". User text. */
  label: string;
  /** The gradient before the edit; null where there is none, and if the edit is disabled. */
  was: FewModel | null;
  now: FewModel | null;
}

/** The gradient of a leaf with only the edits of one name. */
export interface NamedChangeModel {
  after: FewModel | null;
  /** Whether it differs from the gradient without edits. */
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
  /** The norm after divided by the norm before; null if it was zero or did not change. */
  rest: number | null;
  /** The gradient with only the edits of each of `names`. */
  named: NamedChangeModel[];
}

/** The incoming gradient of a node below an edit. */
export interface NodeChangeModel {
  node: AutogradNodeId;
  /** null where no gradient arrives any more. */
  after: FewModel | null;
}

/** The effect of the edits. */
export interface WhatIfModel {
  /** Why the effect could not be computed; the other fields are then empty. */
  failed: string | null;
  edits: EditedModel[];
  /** The first leaves; changed ones come first. */
  leaves: LeafChangeModel[];
  leaf_count: Count;
  /** The names of the compared edits, in order; empty if there are fewer than two. User text. */
  names: string[];
  /** The nodes below an edit, which were replayed or received another gradient. */
  reached: AutogradNodeId[];
  /** The same nodes with their new gradients; empty if there are many. */
  nodes: NodeChangeModel[];
  /** Number of replayed nodes. */
  ran: Count;
  /** Code that makes the same change in the program. User text. */
  code: string;
  notes: string[];
}

/** One edge's contribution to a node's gradient in the backward pass that is shown. */
export interface ShareModel {
  consumer: AutogradNodeId;
  arg_nr: Count;
  /** The consumer's label. User text. */
  label: string;
  /** The component along the total gradient, relative to it: the shares of a node add up to 1. */
  share: number;
}

/** The module that the program has selected. */
export interface BoxModel {
  /** Its namespace. */
  path: string;
  /** Grows with each selection, so that the same one again is a change. */
  number: Count;
}

/** The result of `check` for the node of a custom Function. */
export interface CheckedModel {
  node: AutogradNodeId;
  agrees: boolean;
  sentence: string;
}

/** A value before and after an update. */
export interface ChangeModel {
  /** User text. */
  name: string;
  was: JsonNumber;
  now: JsonNumber;
}

/** The change from the graph that was shown before. */
export interface UpdateModel {
  /** Number of updates so far. */
  number: Count;
  /**
   * The previous id of each node; null for a new node. null as a whole if the structure did not
   * change, so that nothing moves.
   */
  before: (number | null)[] | null;
  /** The change of the structure; "" where a node was opened or closed. User text. */
  words: string;
  /** Leaves and outputs with a new value. */
  changes: ChangeModel[];
}

/** A value of a leaf that the reader can set in the drawing, as with a slider. */
export interface NumberInputModel {
  node: AutogradNodeId;
  /** User text. */
  name: string;
  /** Its index in the leaf, one entry per dimension. */
  at: Count[];
  min: number;
  max: number;
  step: number;
}

/** A finite difference for the gradient of a leaf. */
export interface DifferenceModel {
  node: AutogradNodeId;
  /** "Δloss/Δw". User text. */
  quotient: string;
  value: JsonNumber;
  /** Whether it agrees with the gradient. */
  agrees: boolean;
}

/** A quiz question at one node. */
export interface QuestionModel {
  node: AutogradNodeId;
  /** The node's label. User text. */
  name: string;
  state: "open" | "wrong" | "right" | "revealed";
  /** A hint after a wrong answer. User text. */
  hint: string | null;
  /** The number, once answered correctly or revealed. */
  answer: string | null;
}

/** A quiz. */
export interface QuizModel {
  what: "grad" | "value" | "order";
  questions: QuestionModel[];
}

/** The reader's score; a question counts as right even after wrong answers. */
export interface ScoreModel {
  right: Count;
  /** Number of wrong answers. */
  wrong: Count;
  revealed: Count;
  of: Count;
}

/** Traits that are slow to compute on a large graph; null or absent until requested. */
export interface AskedTraits {
  _memory?: MemoryModel | null;
  _dtypes?: DtypesModel | null;
  _overlays?: OverlayModel[] | null;
  _findings?: FindingModel[] | null;
}

/** The experiments on a graph's gradients; absent for a graph without any. */
export interface ExperimentTraits {
  /** The edits of gradients, in order. Either side sets it. */
  edits?: EditModel[];
  /** The effect of the edits; null without edits. */
  effect?: WhatIfModel | null;
  /** The last result of a check of a custom backward. */
  _checked?: CheckedModel | null;
  /** The contributions to the selected node's gradient, largest first. */
  _shares?: ShareModel[];
  /** Why no gradient can be changed, and what to do; null if one can. */
  _edits_blocked?: string | null;
}

/** Traits of a graph that follows the program; null or absent for other graphs. */
export interface LiveTraits {
  /** The change from the graph that was shown before. */
  _update?: UpdateModel | null;
  /** The current values of the nodes; null when `model` has them. */
  _values?: (Values | null)[] | null;
  /** Nodes that can be opened and closed. */
  _openable?: NodeId[] | null;
  /** The module that the program has selected; null for a node or nothing. */
  _box?: BoxModel | null;
  /**
   * A cursor, and the number of completed calls inside the open node that ran at it; 0 when its
   * whole step is complete. It applies to that cursor only. Either side sets it.
   */
  _inner?: Count[];
  /** The leaf values that the reader can set in the drawing. */
  _number_inputs?: NumberInputModel[] | null;
  /** The finite differences of leaves, once requested. */
  _differences?: DifferenceModel[] | null;
  /** The current quiz. */
  _quiz?: QuizModel | null;
  /** The reader's score in the quiz. */
  score?: ScoreModel | null;
  /** The rank whose values are shown. Either side sets it. */
  rank?: number | null;
  /** The ranks that can be shown; empty where the rank cannot change. */
  _ranks?: Count[];
}

/** The traits that a graph and a comparison share. */
export interface SharedTraits {
  /** An error message from Python. */
  _fault: string | null;
  /** A node; in a comparison an index in `members`. */
  selected: number | null;
  direction: DirectionChoice;
  /** Whether cuts, and operands that do not require grad, are drawn. */
  constants: boolean;
  /** Number of completed steps of the recorded backward pass. */
  cursor: number;
}

/** The traits of a graph. */
export interface Traits extends SharedTraits, AskedTraits, ExperimentTraits, LiveTraits {
  model: GraphModel;
  /** The details of the selected node, or of the running node if none is selected. */
  details: DetailsModel | null;
  state: StateModel;
  _steps: StepModel[];
  run: RunModel | null;
  transport: TransportModel;
}

/** The traits of a comparison. */
export interface CompareTraits extends SharedTraits {
  panes: PaneModel[];
  /** For each node of the merged graphs, its id in each graph, or null. */
  members: ((number | null)[])[];
  /** One per pane; null where the pane lacks the selected node. */
  details: (DetailsModel | null)[];
  /** One per pane. */
  passes: PassModel[];
  _steps: MergedStepModel[];
  table: LeafTableModel;
  /** The numerical errors between two graphs; null where they were not compared. */
  errors: ErrorsModel | null;
  compiled: CompiledModel[];
}

/** Run and record the real backward, then move the cursor; null for the end. */
export interface StartMessage {
  kind: "start";
  cursor: number | null;
}

/** Request a trait of `AskedTraits`. */
export interface AskMessage {
  kind: "memory" | "diagnose";
}

/** Set a value of a leaf from the drawing. */
export interface TurnMessage {
  kind: "turn";
  node: AutogradNodeId;
  at: Count[];
  value: number;
}

/** Replace a node by its inner graph, or close it again. */
export interface OpenMessage {
  kind: "expand" | "collapse";
  node: NodeId;
}

/** Check the backward of a custom Function. */
export interface CheckMessage {
  kind: "check";
  node: AutogradNodeId;
}

/** The reader's answer at a node: the typed text, or null for a click. */
export interface AnswerMessage {
  kind: "answer";
  node: AutogradNodeId;
  text: string | null;
}

/** Reveal the answer at a node; null for all answers. */
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

/** A number that a static program has in place of an operand. */
export interface SavedNumber {
  arg_nr: Count;
  argument: string | null;
  value: string;
}

/** Attributes of every node in the captured graph that are not drawn. */
export interface SavedEveryNode {
  dtype: string | null;
  device: string | null;
  requires_grad: boolean | null;
  is_leaf: boolean;
  outputs: SavedOutput[];
}

/** Attributes of some nodes: watched, inferred or static ones. */
export interface SavedNode extends SavedEveryNode {
  sequence_nr?: number | null;
  source?: string | null;
  namespace?: string | null;
  call?: string | null;
  how?: string | null;
  role?: string | null;
  made_by?: string | null;
  value?: string | null;
  inplace?: boolean;
  inferred?: boolean;
  checkpoint?: CheckpointPlace | null;
  fx_name?: string;
  called?: string | null;
  numbers?: SavedNumber[];
  seq_nr?: number | null;
  /** Only other ranks than the shown one have the node. */
  ranks?: "others";
}

/** Attributes of every edge in the captured graph that are not drawn. */
export interface SavedEveryEdge {
  key: Count;
}

/** Attributes of some edges. */
export interface SavedEdge extends SavedEveryEdge {
  how?: string | null;
  /** Only some ranks have the edge: the shown one and others, or only others. */
  ranks?: "some" | "others";
}

/** Attributes of the graph. */
export interface SavedRoot {
  roots: Count[][];
  torch_version: string;
}

/** Attributes of a static graph; see `gradwalk.capture`. */
export interface SavedStaticRoot extends SavedRoot {
  root_names: (string | null)[];
  static: boolean;
  made_by: "torch.export" | "torch.fx";
}

/** The attributes that are not drawn: see `gradwalk.schema.graph_json`. */
export interface SavedNetwork {
  graph: SavedStaticRoot | SavedRoot;
  nodes: SavedNode[];
  edges: SavedEdge[];
}

/** The list of graphs in a file of several; their files come before it. */
export interface JoinedGraphs {
  labels: string[];
  sizes: Count[];
}

/** The whole file. */
export interface SavedGraphModel {
  format: "gradwalk";
  version: number;
  graph: GraphModel;
  network: SavedNetwork;
  dtypes: DtypesModel;
  overlays: OverlayModel[];
  watched: boolean;
  memory: MemoryModel;
  findings: FindingModel[];
  direction: DirectionChoice;
  constants: boolean;
  selected: NodeId | null;
  cursor: Count;
  /**
   * Number of completed calls inside the open node that the last step ran; 0 when the whole step is
   * complete.
   */
  inner: Count;
  state: StateModel;
  steps: StepModel[];
  run: RunModel | null;
  transport: TransportModel;
  /** The details of each node; null where they were not saved. */
  details: (StageModel[] | null)[];
  /** The minimal details of the first node without saved details, as a model for the others. */
  undetailed: DetailsModel | null;
  /** Whether the details apply to every cursor, or only to the saved one. */
  all_cursors: boolean;
}
