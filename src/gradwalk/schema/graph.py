"""The drawn graph."""

from __future__ import annotations

from typing import TypedDict

from .values import (
    AutogradNodeId,
    CheckpointPlace,
    Count,
    EdgeKind,
    EdgePlace,
    JsonNumber,
    Kind,
    NodeId,
    Values,
)


class NoGradInput(TypedDict):
    """An operand that does not require grad: a ``None`` in ``next_functions``."""

    arg_nr: Count
    argument: str | None


class NodeModel(TypedDict):
    """A node, with the fields that the drawing needs. The autograd nodes come first."""

    id: NodeId
    """Index in ``nodes``; breadth-first from the outputs."""
    kind: Kind
    """The autograd nodes ("op", "leaf") come first, then the calls of compiled code or of a custom
    Function's backward. A constant is an operand that does not require grad. A cut is one that
    was detached from the graph. "outside" is a tensor of another graph that was cut."""
    op: str
    """The node's class name in torch, "MulBackward0"; "AccumulateGrad" for a leaf. For a cut, the
    code that made it, "x.detach()". User text."""
    sign: str | None
    """The operation's symbol, "+", "× 2", "x²", "conv2d 3×3"; None for other nodes. For
    a leaf, the collective before each use, such as "all-gather" under FSDP2."""
    said_by: NodeId | None
    """For an unnamed constant of one number, the operation whose symbol contains it."""
    label: str
    """The text on the node: its name if it has one, else its op. User text."""
    name: str | None
    """The program's name for the tensors that this node made, or None. User text."""
    shape: list[Count] | None
    """Shape of the first output (op) or of the tensor (leaf); None if unknown."""
    no_grad_inputs: list[NoGradInput]
    namespace: str | None
    """The module that ran the operation, "encoder/layers/0"; "" for the outermost module and for
    nodes outside all modules. None where unknown: the node is drawn with its consumer. Groups of
    operations outside modules have a box of their own: "balancing_loss()", "loss = …"."""
    value: Values | None
    """Its value, if known and of at most 16 numbers; in a static graph, a number as the program has
    it."""
    changed: bool | None
    """Whether a leaf was changed in place after operations used it and the used value is unknown.
    None where this is possible; ``value`` is the current value then."""
    inferred: bool
    """Whether the node (constant or cut) or its namespace (autograd node) is inferred, not watched.
    """
    checkpoint: CheckpointPlace | None
    """The innermost checkpointed region that contains it."""
    inside: NodeId | None
    """For a call and its operands, the opened node that contains them."""
    recomputed: bool
    """Whether it is a call of the forward pass that backward recomputes."""
    in_backward: bool
    """Whether it ran inside backward (``create_graph=True``), which `watch` does not see."""


class EdgeModel(TypedDict):
    """An edge from a node to the producer of one of its inputs: the direction of gradients.

    Edges that carry gradients come first: those between autograd nodes, then those inside opened
    nodes. An edge inside leads to a call that takes the gradient as its operand ``output_nr``.
    """

    source: NodeId
    target: NodeId
    argument: str | None
    """The forward argument of the source, "self", "mat2"; None if unknown."""
    arg_nr: Count | None
    """None where unknown; never for an edge that carries gradients."""
    output_nr: Count
    """The output of the target that is this input."""
    kind: EdgeKind
    """The other two kinds carry no gradient: from an operation to a constant, and from a cut to its
    source."""
    via: NodeId | None
    """The call inside an opened source that produces this gradient; None for other edges."""


class RootModel(TypedDict):
    """One tensor that was passed to the widget."""

    node: NodeId
    output_nr: Count
    name: str | None


class ModulesModel(TypedDict):
    """The classes of modules; ``classes`` has one index into ``names`` per namespace."""

    namespaces: list[str]
    classes: list[Count]
    names: list[str]


class CheckpointModel(TypedDict):
    """A checkpointed region, which backward recomputes."""

    parent: CheckpointPlace | None
    """The enclosing region."""
    box: str | None
    """The namespace of its box; None where its operations have no box of their own."""
    saves: str
    """Such as "saves 38 MiB"; empty where unknown."""
    about: str
    """A sentence or two."""


class DerivativeModel(TypedDict):
    """A derivative that the program computed: ``node`` is the derivative of ``of``.

    It is not an edge of the graph.
    """

    node: AutogradNodeId
    of: AutogradNodeId


class NodeRanksModel(TypedDict):
    """The gradient norms at a node on the ranks of a run: a strip of bars."""

    node: AutogradNodeId
    most: list[JsonNumber | None]
    """The largest finite norm on the ranks of each bar, in four digits; None without one."""
    least: list[JsonNumber | None] | None
    """The smallest; None where each bar is one rank."""
    not_finite: list[Count]
    """Indices of the bars with a NaN or infinite gradient."""
    without: list[Count]
    """Indices of the bars with a rank without a gradient."""
    beyond: list[Count]
    """Indices of the bars whose ranks run another program, such as another pipeline stage."""
    odd: list[Count]
    """Indices of the bars with a rank that differs from most."""
    only: str | None
    """The ranks that have the node, unless all have it: "only on rank 0"."""
    here: bool
    """Whether the shown rank has it."""


class EdgeRanksModel(TypedDict):
    """An edge that some ranks lack."""

    edge: EdgePlace
    here: bool
    """Whether the shown rank has it."""


class ElsewhereModel(TypedDict):
    """Nodes of other ranks that are not drawn, because there are too many different graphs."""

    rank: Count
    """The first of these ranks."""
    ranks: str
    """All of them: "ranks 1 and 3"."""
    count: Count
    """Number of autograd nodes on each that are not drawn."""
    names: list[str]
    """Names of the first few leaves among them. User text."""


class RanksModel(TypedDict):
    """The ranks of a run."""

    shown: Count
    """The shown rank."""
    count: Count
    first: list[Count]
    """The first rank of each bar; with many ranks, one bar covers several."""
    last: list[Count]
    nodes: list[NodeRanksModel]
    """The autograd nodes with bars."""
    edges: list[EdgeRanksModel]
    """Edges that some ranks lack."""
    elsewhere: list[ElsewhereModel]
    """The first few of the graphs that are not drawn."""


class PlanModel(TypedDict):
    """The planned memory and work of a step on fake tensors."""

    summary: str
    live: list[Count]
    """Live bytes along the step, forward first: the most of each of a few hundred stretches."""
    nodes: list[AutogradNodeId | None]
    """The node that made or ran the operation at each point."""
    words: list[str]
    """The place of each point."""
    held: list[str]
    """The bytes of each role at each point, and the largest tensors."""
    forward: Count
    """Number of points in the forward pass."""
    backward: Count
    """Number of points in the backward pass; the points of the optimizer's step come last."""
    peak: Count
    """The point of the peak."""
    advised: list[str]
    """The namespaces of the blocks that the last advice would checkpoint."""


class OverlayModel(TypedDict):
    """Numbers of the nodes that colours show: of the user's own, planned or measured."""

    label: str
    unit: str
    """Seconds "s", "FLOP" and bytes "B" are written with prefixes; other text as it is."""
    nodes: list[NodeId]
    values: list[JsonNumber]
    """One per entry of ``nodes``."""
    modules: list[str]
    """Boxes that have a number of their own, by namespace."""
    module_values: list[JsonNumber]
    """One per entry of ``modules``."""
    adds_up: bool
    """Whether other boxes show the sum of their nodes, not the largest."""
    is_shown: bool
    """Whether it colours the picture until the reader chooses another meaning."""


class GraphModel(TypedDict):
    """The graph that the browser draws."""

    static: bool
    """Whether it is a static graph: a program that has not run, without gradients."""
    modules: ModulesModel
    nodes: list[NodeModel]
    edges: list[EdgeModel]
    roots: list[RootModel]
    checkpoints: list[CheckpointModel]
    """Each region comes after its enclosing one."""
    derivatives: list[DerivativeModel]
    """Each pair once."""
    ranks: RanksModel | None
    """None unless the files of several ranks were loaded."""
    plan: PlanModel | None
    """None unless `gradwalk.plan` made the graph."""


class DtypesModel(TypedDict):
    """The dtype of every node."""

    names: list[str]
    """Such as "float32"."""
    nodes: list[int]
    """Per graph node, the index of its dtype in ``names``; -1 if unknown."""
