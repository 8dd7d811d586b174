/** The classes of modules; `classes` has, per namespace, a place in `names`. All user text. */
export interface ModulesModel {
  namespaces: string[];
  classes: number[];
  names: string[];
}

export interface GraphModel {
  v: number;
  /** Whether it is a static graph: written down before it runs, without gradients. */
  static: boolean;
  modules: ModulesModel;
  nodes: NodeModel[];
  edges: EdgeModel[];
  roots: RootModel[];
}

export interface NodeModel {
  /** Position in `nodes`; breadth-first from the outputs. */
  id: number;
  /**
   * The first two are autograd nodes, and come first. A constant is an operand that needs no grad; a cut is one that
   * lost its gradient on the way; outside is the tensor of another graph that a cut began at.
   */
  kind: "leaf" | "op" | "constant" | "cut" | "outside";
  /**
   * The class name torch gives the node, "MulBackward0"; "AccumulateGrad" for a leaf. Of a cut, how it was made,
   * "x.detach()". User text.
   */
  op: string;
  /** What to write on the node: its name if it has one, else its op. User text. */
  label: string;
  /** The name the user's program gives the tensor(s) this node made, or null. User text. */
  name: string | null;
  /** Shape of the first output (op) or of the tensor (leaf); null when torch does not tell. */
  shape: number[] | null;
  /** Operands that need no gradient: a `None` in `next_functions`. */
  no_grad_inputs: NoGradInput[];
  /** The module that ran the operation, "encoder/layers/0"; "" for the outermost, null where it was not watched. */
  namespace: string | null;
  /** The numbers of a small constant, "[1, 2.5]". */
  value: string | null;
  /** Whether it (of a constant or a cut) or its namespace (of an autograd node) is inferred rather than watched. */
  inferred: boolean;
}

export interface NoGradInput {
  input_nr: number;
  argument: string | null;
}

/** Edges point the way gradients flow: from a node to the producer of one of its inputs. */
export interface EdgeModel {
  source: number;
  target: number;
  /** Which forward input of the source this is, "self", "mat2"; null when torch does not tell. */
  argument: string | null;
  /** Null where it is not known, which can be on an edge of another kind than "gradient". */
  input_nr: number | null;
  /** Which output of the target was that input. */
  output_nr: number;
  /** No gradient flows along the other two: from an operation to a constant, and from a cut to its source. */
  kind: "gradient" | "constant" | "cut";
}

/** One tensor handed to the widget. */
export interface RootModel {
  node: number;
  output_nr: number;
  name: string | null;
}

/** The dtype of every node. */
export interface DtypesModel {
  /** "float32", "bfloat16". */
  names: string[];
  /** Per graph node, the place of its dtype in `names`; -1 where torch does not tell. */
  nodes: number[];
}
