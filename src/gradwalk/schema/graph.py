"""The graph that is drawn."""

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
    """An operand that needs no gradient: a ``None`` in ``next_functions``."""

    input_nr: Count
    argument: str | None


class NodeModel(TypedDict):
    """One node, as much of it as the drawing needs. The autograd nodes come first."""

    id: NodeId
    """Position in ``nodes``; breadth-first from the outputs."""
    kind: Kind
    """The first two are autograd nodes, and come first; calls, which are inside of compiled code or
    what the backward of a custom Function ran, come next. A constant is an operand that needs no
    grad; a cut is one that lost its gradient on the way; outside is the tensor of another graph
    that a cut began at."""
    op: str
    """The class name torch gives the node, "MulBackward0"; "AccumulateGrad" for a leaf. Of a cut,
    how it was made, "x.detach()". User text."""
    sign: str | None
    """What the operation is called on a board, "+", "× 2", "x²", "conv2d 3×3"; None for what is
    none. Of a leaf what is done for it before each use, "all-gather" under FSDP2."""
    said_by: NodeId | None
    """Of a constant that is one number and has no name, the operation whose sign says it."""
    label: str
    """What to write on the node: its name if it has one, else its op. User text."""
    name: str | None
    """The name the user's program gives the tensor(s) this node made, or None. User text."""
    shape: list[Count] | None
    """Shape of the first output (op) or of the tensor (leaf); None when torch does not tell."""
    no_grad_inputs: list[NoGradInput]
    """Operands that need no gradient: a ``None`` in ``next_functions``."""
    namespace: str | None
    """The module that ran the operation, "encoder/layers/0"; "" for the outermost, and for what
    came from outside of all modules; None where it is not known: it is drawn with what takes it.
    Many operations outside of modules have a box that is none: "balancing_loss()", "loss = …"."""
    value: Values | None
    """What it holds or gave, when that is known and of at most 16 numbers; of a static graph, a
    number as it is written in the program."""
    changed: bool | None
    """Whether it was changed in place since operations took it (of a leaf), and what they took is
    not known. None where that may be: ``value`` is what it holds now."""
    inferred: bool
    """Whether it (of a constant or a cut) or its namespace (of an autograd node) is inferred rather
    than watched."""
    checkpoint: CheckpointPlace | None
    """The innermost checkpointed region that it was made in."""
    inside: NodeId | None
    """Of a call, and of a tensor that it takes, the opened node that it is inside of."""
    recomputed: bool
    """Whether it is a call of the forward pass that was put into backward."""


class EdgeModel(TypedDict):
    """From a node to the producer of one of its inputs: the way gradients flow.

    Those along which gradients can flow come first: between autograd nodes, then inside of opened
    nodes, where they lead to a call, which takes the gradient as its operand ``output_nr``. Of the
    others ``input_nr`` may be None.
    """

    source: NodeId
    target: NodeId
    argument: str | None
    """Which forward input of the source this is, "self", "mat2"; None when torch does not tell."""
    input_nr: Count | None
    """None where it is not known, which can be on an edge of another kind than "gradient"."""
    output_nr: Count
    """Which output of the target was that input."""
    kind: EdgeKind
    """No gradient flows along the other two: from an operation to a constant, and from a cut to its
    source."""
    via: NodeId | None
    """Of an opened source the call inside of it that gives this gradient; None of all others."""


class RootModel(TypedDict):
    """One tensor handed to the widget."""

    node: NodeId
    output_nr: Count
    name: str | None


class ModulesModel(TypedDict):
    """The classes of modules; ``classes`` has, per namespace, a place in ``names``."""

    namespaces: list[str]
    classes: list[Count]
    names: list[str]


class CheckpointModel(TypedDict):
    """A part of the program that runs forward again in backward."""

    parent: CheckpointPlace | None
    """The region that it lies in."""
    box: str | None
    """The namespace whose box it is; None where its operations have no box for themselves."""
    saves: str
    """Such as "saves 38 MiB"; empty where that is not known."""
    about: str
    """A sentence or two."""


class DerivativeModel(TypedDict):
    """That one node gave the derivative of what another gave, as the program was seen to compute.

    It is no edge of the graph.
    """

    node: AutogradNodeId
    """Which gave the derivative."""
    of: AutogradNodeId


class NodeRanksModel(TypedDict):
    """The gradient that arrives at a node, over the ranks of a run: a strip of bars."""

    node: AutogradNodeId
    most: list[JsonNumber | None]
    """Its largest finite norm on the ranks of each bar, in four digits; None where none is."""
    least: list[JsonNumber | None] | None
    """The least; None where each bar stands for one rank."""
    not_finite: list[Count]
    """Places of the bars that have a NaN or an infinity."""
    without: list[Count]
    """Places of those that have a rank where none arrives."""
    beyond: list[Count]
    """Places of those whose ranks do something else, as another stage of a pipeline does."""
    odd: list[Count]
    """Places of those that have a rank that is not as most are."""
    only: str | None
    """Which ranks have the node, where not all have it: "only on rank 0"."""
    here: bool
    """Whether the rank that is shown has it."""


class EdgeRanksModel(TypedDict):
    """An edge that not all ranks have."""

    edge: EdgePlace
    here: bool
    """Whether the rank that is shown has it."""


class ElsewhereModel(TypedDict):
    """Nodes of other ranks that are not drawn here, where there are too many kinds of graphs."""

    rank: Count
    """The first of these ranks."""
    ranks: str
    """All of them in words: "ranks 1 and 3"."""
    count: Count
    """How many autograd nodes each has beyond those that are drawn."""
    names: list[str]
    """Of the leaves among them, the first few. User text."""


class RanksModel(TypedDict):
    """The ranks of a run."""

    shown: Count
    """Whose graph it is."""
    count: Count
    first: list[Count]
    """The first rank of each bar, and the last; of many ranks several share a bar."""
    last: list[Count]
    nodes: list[NodeRanksModel]
    """The autograd nodes of which there is something to say."""
    edges: list[EdgeRanksModel]
    """Those that not all ranks have."""
    elsewhere: list[ElsewhereModel]
    """What is not drawn here, the first few kinds of other graphs."""


class GraphModel(TypedDict):
    """What the browser draws."""

    static: bool
    """Whether it is a static graph: written down before it runs, without gradients."""
    modules: ModulesModel
    nodes: list[NodeModel]
    edges: list[EdgeModel]
    roots: list[RootModel]
    checkpoints: list[CheckpointModel]
    """A region comes after the one that it lies in."""
    derivatives: list[DerivativeModel]
    """Each pair once."""
    ranks: RanksModel | None
    """Of a graph that the files of several ranks were loaded for."""


class DtypesModel(TypedDict):
    """The dtype of every node."""

    names: list[str]
    """Such as "float32"."""
    nodes: list[int]
    """Per graph node, the place of its dtype in ``names``; -1 where torch does not tell."""
