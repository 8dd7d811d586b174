"""A comparison of several graphs."""

from __future__ import annotations

from typing import Literal, TypedDict

from .backward import FewModel, RunModel, StateModel, StepModel, TransportModel
from .graph import GraphModel
from .values import Count, JsonNumber


class PaneModel(TypedDict):
    """One of the graphs of a comparison."""

    label: str
    """User text."""
    graph: GraphModel


class PassModel(TypedDict):
    """The recorded backward pass of one graph of a comparison."""

    state: StateModel
    steps: list[StepModel]
    run: RunModel | None
    transport: TransportModel


class MergedStepModel(TypedDict):
    """One step of several passes; ``node`` is an index in the trait ``members``."""

    node: int
    passes: list[int]
    """The passes that run the node in this step."""


class LeafCellModel(TypedDict):
    """A leaf in one graph; ``node`` is an index in ``members``, None where the graph lacks it."""

    node: int | None
    requires_grad: bool | None
    is_leaf: bool | None
    before: FewModel | None
    """The ``.grad`` before backward, if there was one."""
    now: FewModel | None


class LeafRowModel(TypedDict):
    """A leaf in all graphs."""

    name: str | None
    """User text."""
    cells: list[LeafCellModel]


class LeafTableModel(TypedDict):
    """The leaves of all graphs; ``total`` also counts omitted rows."""

    rows: list[LeafRowModel]
    total: int


class CompiledOperationModel(TypedDict):
    """The compiled counterpart of an operation; all numbers are indices in ``members``."""

    place: Count
    how: Literal["one", "several", "dropped", "unknown"]
    """Whether it has one call, several, none (removed by the compiler) or no known counterpart."""
    calls: list[Count]
    again: list[Count]
    """Calls of its forward pass that backward recomputes."""
    label: str
    """User text, like ``where``."""
    where: str
    """Its module and line, if known."""
    sentence: str
    """A sentence about the counterpart."""


class CompiledModel(TypedDict):
    """An opened compiled node, compared with the same program without compilation."""

    sentence: str
    """A summary."""
    operations: list[CompiledOperationModel]
    adding: list[Count]
    """Calls that accumulate gradients, as the engine does between nodes."""
    others: list[Count]
    """Calls without a known counterpart."""


class ErrorModel(TypedDict):
    """The error between two graphs at a node; ``place`` is an index in ``members``."""

    place: Count
    value: JsonNumber | None
    """Relative error, like ``grad``; None where unknown."""
    grad: JsonNumber | None
    leaves: Literal["value", "gradient"] | None
    """Which of the two exceeds the tolerance first."""


class ErrorsModel(TypedDict):
    """The numerical errors between two graphs: see `gradwalk.compare_numerics`."""

    sentence: str
    """A summary."""
    first: Count | None
    """The first index out of tolerance."""
    nodes: list[ErrorModel]
