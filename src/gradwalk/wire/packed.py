"""How graphs and passes travel: in columns; see `gradwalk.packing`."""

from __future__ import annotations

from typing import Literal, TypedDict

from .backward import GrownModel, MarkModel, SeedModel, TransportModel
from .graph import ModulesModel, NoGradInput, RootModel
from .values import Column, EdgeKind, JsonNumber, Kind, Ranges, Values


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


class PackedPane(TypedDict):
    """A `PaneModel` as it travels."""

    label: str
    graph: PackedGraph


class PackedPass(TypedDict):
    """A `PassModel` as it travels."""

    state: PackedState
    steps: PackedSteps
    run: PackedRun | None
    transport: TransportModel


class PackedDtypes(TypedDict):
    """A `DtypesModel` as it travels."""

    names: list[str]
    nodes: Column
