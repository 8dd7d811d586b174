"""Several graphs side by side."""

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
    """What has been seen of backward through one of the graphs of a comparison."""

    state: StateModel
    steps: list[StepModel]
    run: RunModel | None
    transport: TransportModel


class MergedStepModel(TypedDict):
    """One step of several passes at once; ``node`` is a place in the trait ``members``."""

    node: int
    passes: list[int]
    """The passes that run it in this step."""


class LeafCellModel(TypedDict):
    """A leaf in one of the graphs; ``node`` is a place in ``members``, None where it is not."""

    node: int | None
    requires_grad: bool | None
    is_leaf: bool | None
    before: FewModel | None
    """The ``.grad`` before backward, if there was one."""
    now: FewModel | None


class LeafRowModel(TypedDict):
    """A leaf in all of the graphs."""

    name: str | None
    """User text."""
    cells: list[LeafCellModel]


class LeafTableModel(TypedDict):
    """The leaves side by side; ``total`` counts also those that are left out."""

    rows: list[LeafRowModel]
    total: int


class BecameModel(TypedDict):
    """What became of an operation in compiled code; places are those in ``members``."""

    place: Count
    how: Literal["one", "several", "dropped", "unknown"]
    """One call or several; nothing, the gradient goes straight on; or no counterpart was found."""
    calls: list[Count]
    again: list[Count]
    """Calls of its forward that run again."""
    label: str
    """User text, as the next."""
    where: str
    """Its module and line, as far as they are known."""
    said: str
    """What became of it, in words."""


class CompiledModel(TypedDict):
    """Compiled code that is open, beside the same program that is not compiled."""

    said: str
    """What there is to say of all of it."""
    operations: list[BecameModel]
    adding: list[Count]
    """Calls that add up gradients, as the engine does between nodes."""
    others: list[Count]
    """Calls of which it is not known what they stand for."""


class ErrorModel(TypedDict):
    """How far the numbers of a node are apart in two graphs; ``place`` is one in ``members``."""

    place: Count
    value: JsonNumber | None
    """Relative, as the next two; None where it is not known."""
    grad: JsonNumber | None
    own: JsonNumber | None
    """What of it arises at the node."""
    is_estimate: bool
    """Whether ``own`` is one."""
    leaves: Literal["value", "gradient"] | None
    """What is out of tolerance first."""


class ErrorSourceModel(ErrorModel):
    """A node at which error arises, in words."""

    label: str
    """User text, as the next."""
    where: str
    """Its module and line, as far as they are known."""


class ErrorsModel(TypedDict):
    """Two graphs, number by number: see `gradwalk.compare_numerics`."""

    said: str
    """What there is to say of all of it."""
    first: Count | None
    """The place that is out of tolerance first."""
    nodes: list[ErrorModel]
    sources: list[ErrorSourceModel]
    """Where most error arises, the most first."""
