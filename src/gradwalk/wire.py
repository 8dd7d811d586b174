"""The wire format between Python and the browser, version 1.

The same fields stand as interfaces in ``js/wire.ts``; ``tests/test_wire.py`` fails when the two
sides drift apart. NaN and infinities are not JSON: they travel as the strings "nan", "inf" and
"-inf".
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

WIRE_VERSION = 1

JsonNumber = int | float | str
"""A number as JSON can carry it: integers beyond 2**53, NaN and infinities come as strings."""

Values = Any
"""Values of a tensor: nested lists, one level per dimension, a bare value for a 0-dim tensor."""

Kind = Literal["leaf", "op", "constant", "cut", "outside"]
"""What a node stands for; only the first two are autograd nodes. See `gradwalk.annotate`."""

EdgeKind = Literal["gradient", "constant", "cut"]

Column = list[int | list[int]]
"""One integer per row; a run of the same is one entry, [number, how often]."""

Ranges = list[int | list[int]]
"""Integers; those that follow each other are one entry, [first, last]."""

NodeState = Literal["waiting", "ready", "running", "done", "not reached"]


class NoGradInput(TypedDict):
    """An operand that needs no gradient: a ``None`` in ``next_functions``."""

    input_nr: int
    argument: str | None


class NodeModel(TypedDict):
    """One node, as much of it as the drawing needs. The autograd nodes come first."""

    id: int
    kind: Kind
    op: str
    label: str
    name: str | None
    shape: list[int] | None
    no_grad_inputs: list[NoGradInput]
    namespace: str | None
    value: str | None
    inferred: bool


class EdgeModel(TypedDict):
    """From a node to the producer of one of its inputs: the way gradients flow.

    Those along which gradients can flow come first. Of the others ``input_nr`` may be None.
    """

    source: int
    target: int
    argument: str | None
    input_nr: int | None
    output_nr: int
    kind: EdgeKind


class RootModel(TypedDict):
    """One tensor handed to the widget."""

    node: int
    output_nr: int
    name: str | None


class ModulesModel(TypedDict):
    """The classes of modules; ``classes`` has, per namespace, a place in ``names``."""

    namespaces: list[str]
    classes: list[int]
    names: list[str]


class GraphModel(TypedDict):
    """What the browser draws; ``static`` says that it is a static graph, without gradients."""

    v: int
    static: bool
    modules: ModulesModel
    nodes: list[NodeModel]
    edges: list[EdgeModel]
    roots: list[RootModel]


class NodeForm(TypedDict):
    """What nodes that are alike have in common."""

    kind: Kind
    op: str
    shape: list[int] | None
    no_grad_inputs: list[NoGradInput]
    inferred: bool


class EdgeForm(TypedDict):
    """What edges that are alike have in common."""

    argument: str | None
    input_nr: int | None
    output_nr: int
    kind: EdgeKind


class PackedNodes(TypedDict):
    """The nodes, a row each: places in ``node_forms`` and in ``texts``.

    ``label`` is 0 where it is the name, else the value, else the op.
    """

    form: Column
    name: Column
    label: Column
    namespace: Column
    value: Column


class PackedEdges(TypedDict):
    """The edges, a row each.

    ``form`` has places in ``edge_forms``, ``source`` the difference to the source in the row
    before (to 0 in the first), and ``target`` how far it is behind the node that follows all
    targets of the rows before: 0 in most rows, as nodes are numbered breadth-first.
    """

    form: Column
    source: Column
    target: Column


class PackedGraph(TypedDict):
    """A `GraphModel` as it travels; ``texts[0]`` is None. See `gradwalk.packing.graph`."""

    v: int
    static: bool
    modules: ModulesModel
    texts: list[str | None]
    node_forms: list[NodeForm]
    edge_forms: list[EdgeForm]
    nodes: PackedNodes
    edges: PackedEdges
    roots: list[RootModel]


class StateModel(TypedDict):
    """What the widget has seen of backward. Changes while the graph stays."""

    runs: int
    reached: list[int]
    flowed: list[int]
    freed: list[int]
    note: str


class StepModel(TypedDict):
    """One node's backward, in the engine's order. The trait ``steps`` is a list of these."""

    step: int
    node: int
    op: str
    name: str | None
    accumulated: str | None
    ready: int


class SeedModel(TypedDict):
    """The gradient that backward started from at one output."""

    node: int
    output_nr: int
    values: Values | None
    norm: JsonNumber | None


class GrownModel(TypedDict):
    """What the ``.grad`` of a leaf, or of a tensor that retains it, held after a node's step."""

    node: int
    values: Values | None
    norm: JsonNumber | None


class MarkModel(TypedDict):
    """A node where something went wrong, and the sentence that says what."""

    node: int
    kind: Literal["error", "nan"]
    note: str


class RunModel(TypedDict):
    """What flowed in the backward pass whose steps are shown, in few numbers.

    ``edges``, ``values`` and ``norms`` are aligned: one entry per edge that carried a gradient.
    ``values`` has the numbers of gradients of at most four, None of larger ones.
    """

    run: int
    ended: Literal["done", "stopped"]
    seeds: list[SeedModel]
    edges: list[int]
    values: list[Values | None]
    norms: list[JsonNumber | None]
    grads: list[GrownModel]
    marks: list[MarkModel]


class PackedState(TypedDict):
    """A `StateModel` as it travels."""

    runs: int
    reached: Ranges
    flowed: Ranges
    freed: Ranges
    note: str


class PackedSteps(TypedDict):
    """A list of `StepModel` as it travels, a row each.

    ``op``, ``name`` and ``accumulated`` have places in ``texts``, ``node`` the difference to the
    node in the row before (to 0 in the first), and ``waited`` how many steps ran between the one
    that made it ready and its own.
    """

    texts: list[str | None]
    node: Column
    op: Column
    name: Column
    accumulated: Column
    waited: Column


class PackedRun(TypedDict):
    """A `RunModel` as it travels.

    ``valued`` has the places in ``edges`` of those whose gradient comes with its numbers, which
    are in ``values``. A run of the same among the ``norms`` is one entry, [norm, how often].
    """

    run: int
    ended: Literal["done", "stopped"]
    seeds: list[SeedModel]
    edges: Ranges
    valued: Ranges
    values: list[Values]
    norms: list[JsonNumber | list[JsonNumber | None] | None]
    grads: list[GrownModel]
    marks: list[MarkModel]


class TransportModel(TypedDict):
    """Whether travelling moves ``.grad``, and what the bar has to say."""

    owned: bool
    note: str | None
    blocked: str | None


class PaneModel(TypedDict):
    """One of the graphs of a comparison."""

    label: str
    graph: GraphModel


class PackedPane(TypedDict):
    """A `PaneModel` as it travels."""

    label: str
    graph: PackedGraph


class PassModel(TypedDict):
    """What has been seen of backward through one of the graphs of a comparison."""

    state: StateModel
    steps: list[StepModel]
    run: RunModel | None
    transport: TransportModel


class PackedPass(TypedDict):
    """A `PassModel` as it travels."""

    state: PackedState
    steps: PackedSteps
    run: PackedRun | None
    transport: TransportModel


class MergedStepModel(TypedDict):
    """One step of several passes at once; ``node`` is a place in the trait ``members``."""

    node: int
    passes: list[int]


class FewModel(TypedDict):
    """A gradient in few numbers: its values if it has at most four, and its norm."""

    values: Values | None
    norm: JsonNumber | None


class LeafCellModel(TypedDict):
    """A leaf in one of the graphs; ``node`` is a place in ``members``, None where it is not."""

    node: int | None
    requires_grad: bool | None
    is_leaf: bool | None
    before: FewModel | None
    now: FewModel | None


class LeafRowModel(TypedDict):
    """A leaf in all of the graphs."""

    name: str | None
    cells: list[LeafCellModel]


class LeafTableModel(TypedDict):
    """The leaves side by side; ``total`` counts also those that are left out."""

    rows: list[LeafRowModel]
    total: int


class FindingModel(TypedDict):
    """Something about the graph or its gradients that may be wrong, and the numbers it rests on."""

    kind: Literal[
        "vanishing", "exploding", "dead", "nan", "no grad", "cut", "memory", "no backward"
    ]
    severity: Literal["error", "warning", "info"]
    nodes: list[int]
    message: str
    numbers: list[NumberModel]


class NumberModel(TypedDict):
    """A number that a finding rests on, and what it is."""

    name: str
    value: JsonNumber


class DtypesModel(TypedDict):
    """The dtype of every node: its place among the names, -1 where torch does not tell."""

    names: list[str]
    nodes: list[int]


class PackedDtypes(TypedDict):
    """A `DtypesModel` as it travels."""

    names: list[str]
    nodes: Column


class MemoryModel(TypedDict):
    """The bytes held for backward; nodes and namespaces that hold none are left out.

    ``nodes`` and ``bytes`` are aligned, and so are ``namespaces`` and ``namespace_bytes``, which
    counts the nodes directly in a namespace. ``unknown`` is how many tensors have an unknown size.
    """

    nodes: list[int]
    bytes: list[int]
    namespaces: list[str]
    namespace_bytes: list[int]
    total: int
    unknown: int


class TensorSummary(TypedDict):
    """A tensor in at most 64 numbers and its statistics."""

    shape: list[int]
    dtype: str
    device: str
    numel: int
    values: Values | None
    truncated: bool
    indices: list[list[int]] | None
    min: JsonNumber | None
    max: JsonNumber | None
    mean: JsonNumber | None
    norm: JsonNumber | None
    nan: int | None
    inf: int | None
    zeros: int | None
    note: str | None


class OutputModel(TypedDict):
    """One output of the forward operation behind a node."""

    output_nr: int
    name: str | None
    shape: list[int] | None
    dtype: str | None
    device: str | None
    is_root: bool


class InputModel(TypedDict):
    """One edge out of a node, seen from that node."""

    input_nr: int
    argument: str | None
    node: int
    output_nr: int
    label: str
    shape: list[int] | None


class ConsumerModel(TypedDict):
    """One edge into a node, seen from that node."""

    node: int
    input_nr: int | None
    argument: str | None
    output_nr: int
    label: str


class SavedModel(TypedDict):
    """Something a node keeps for backward: a tensor's summary, or a plain value."""

    name: str
    summary: TensorSummary | None
    scalar: Any
    freed: bool
    note: str | None


class ContributionModel(TypedDict):
    """One consumer's share of the gradient that arrives at a node, and the sum so far."""

    step: int
    consumer: int | None
    label: str
    input_nr: int | None
    argument: str | None
    output_nr: int
    grad: TensorSummary | None
    total: TensorSummary | None


class FormulaModel(TypedDict):
    """The derivative with respect to one input, as code; ``source`` says whose words they are."""

    input_nr: int
    argument: str | None
    code: str
    numbers: str | None
    source: Literal["gradwalk", "torch"]
    note: str | None


class FactorModel(TypedDict):
    """One edge of a path from an output to a leaf, and the derivative along it."""

    edge: int
    node: int
    target: int
    code: str
    value: Values | None
    note: str | None


class PathModel(TypedDict):
    """One way from an output to a leaf."""

    factors: list[FactorModel]
    written: str | None
    product: Values | None


class ChainModel(TypedDict):
    """The chain rule from the outputs to one leaf: a product along each path, summed over paths."""

    paths: list[PathModel]
    total_paths: JsonNumber
    written: str | None
    sum: Values | None
    note: str


class GradNotes(TypedDict):
    """Why a gradient is not there, one sentence for each that is None."""

    grad: str | None
    grad_output: str | None
    grad_input: str | None


class SourceModel(TypedDict):
    """A line of the user's program."""

    file: str
    line: int
    text: str
    function: str


class ConstantModel(TypedDict):
    """An operand that needs no grad and is drawn, seen from the node that takes it."""

    node: int
    argument: str | None
    input_nr: int | None
    label: str
    shape: list[int] | None


class CutModel(TypedDict):
    """Where gradient was lost on the way to an operand, and the node of the tensor before it."""

    how: str
    node: int
    label: str
    line: SourceModel | None
    region: SourceModel | None


class DetailsModel(TypedDict):
    """Everything the panel shows of the selected node.

    ``consumers`` and ``contributions`` are the first 100; the counts are of all.
    """

    id: int
    kind: Kind
    op: str
    name: str | None
    about: str
    forward: str | None
    shape: list[int] | None
    dtype: str | None
    device: str | None
    requires_grad: bool | None
    is_leaf: bool | None
    outputs: list[OutputModel]
    saved: list[SavedModel]
    inputs: list[InputModel]
    no_grad_inputs: list[NoGradInput]
    consumers: list[ConsumerModel]
    consumer_count: int
    value: TensorSummary | None
    grad: TensorSummary | None
    grad_output: list[TensorSummary | None] | None
    grad_input: list[TensorSummary | None] | None
    grad_note: GradNotes
    state: NodeState
    contributions: list[ContributionModel] | None
    contribution_count: int
    formula: list[FormulaModel]
    chain: ChainModel | None
    source: SourceModel | None
    module: str | None
    call: str | None
    inplace: bool
    inferred: bool
    constants: list[ConstantModel]
    cuts: list[CutModel]
    explained: str | None
