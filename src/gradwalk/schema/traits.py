"""The traits and messages that Python and the browser exchange."""

from __future__ import annotations

from typing import Literal, TypedDict

from .backward import RunModel, StateModel, StepModel, TransportModel
from .comparison import (
    CompiledModel,
    ErrorsModel,
    LeafTableModel,
    MergedStepModel,
    PaneModel,
    PassModel,
)
from .details import DetailsModel
from .findings import FindingModel, MemoryModel
from .graph import DtypesModel, GraphModel, OverlayModel
from .updates import (
    BoxModel,
    CheckedModel,
    DifferenceModel,
    NumberInputModel,
    QuizModel,
    ScoreModel,
    UpdateModel,
)
from .values import AutogradNodeId, Count, DirectionChoice, NodeId, Values
from .what_if import EditModel, ShareModel, WhatIfModel


class AskedTraits(TypedDict, total=False):
    """Traits that are slow to compute on a large graph; None or absent until requested."""

    _memory: MemoryModel | None
    _dtypes: DtypesModel | None
    _overlays: list[OverlayModel] | None
    _findings: list[FindingModel] | None


class ExperimentTraits(TypedDict, total=False):
    """The experiments on a graph's gradients; absent for a graph without any."""

    edits: list[EditModel]
    """The edits of gradients, in order. Either side sets it."""
    effect: WhatIfModel | None
    """The effect of the edits; None without edits."""
    _checked: CheckedModel | None
    """The last result of a check of a custom backward."""
    _shares: list[ShareModel]
    """The contributions to the selected node's gradient, largest first."""
    _edits_blocked: str | None
    """Why no gradient can be changed, and what to do; None if one can."""


class LiveTraits(TypedDict, total=False):
    """Traits of a graph that follows the program; None or absent for other graphs."""

    _update: UpdateModel | None
    """The change from the graph that was shown before."""
    _values: list[Values | None] | None
    """The current values of the nodes; None when ``model`` has them."""
    _openable: list[NodeId] | None
    """Nodes that can be opened and closed."""
    _box: BoxModel | None
    """The module that the program has selected; None for a node or nothing."""
    _inner: list[Count]
    """A cursor, and the number of completed calls inside the open node that ran at it; 0 when its
    whole step is complete. It applies to that cursor only. Either side sets it."""
    _number_inputs: list[NumberInputModel] | None
    """The leaf values that the reader can set in the drawing."""
    _differences: list[DifferenceModel] | None
    """The finite differences of leaves, once requested."""
    _quiz: QuizModel | None
    """The current quiz."""
    score: ScoreModel | None
    """The reader's score in the quiz."""
    rank: int | None
    """The rank whose values are shown. Either side sets it."""
    _ranks: list[Count]
    """The ranks that can be shown; empty where the rank cannot change."""


class SharedTraits(TypedDict):
    """The traits that a graph and a comparison share."""

    _fault: str | None
    """An error message from Python."""
    selected: int | None
    """A node; in a comparison an index in ``members``."""
    direction: DirectionChoice
    constants: bool
    """Whether cuts, and operands that do not require grad, are drawn."""
    cursor: int
    """Number of completed steps of the recorded backward pass."""


class Traits(SharedTraits, AskedTraits, ExperimentTraits, LiveTraits):
    """The traits of a graph."""

    model: GraphModel
    details: DetailsModel | None
    """The details of the selected node, or of the running node if none is selected."""
    state: StateModel
    _steps: list[StepModel]
    run: RunModel | None
    transport: TransportModel


class CompareTraits(SharedTraits):
    """The traits of a comparison."""

    panes: list[PaneModel]
    members: list[list[int | None]]
    """For each node of the merged graphs, its id in each graph, or None."""
    details: list[DetailsModel | None]
    """One per pane; None where the pane lacks the selected node."""
    passes: list[PassModel]
    """One per pane."""
    _steps: list[MergedStepModel]
    table: LeafTableModel
    errors: ErrorsModel | None
    """The numerical errors between two graphs; None where they were not compared."""
    compiled: list[CompiledModel]


class StartMessage(TypedDict):
    """Run and record the real backward, then move the cursor; None for the end."""

    kind: Literal["start"]
    cursor: int | None


class AskMessage(TypedDict):
    """Request a trait of `AskedTraits`."""

    kind: Literal["memory", "diagnose"]


class TurnMessage(TypedDict):
    """Set a value of a leaf from the drawing."""

    kind: Literal["turn"]
    node: AutogradNodeId
    at: list[Count]
    value: float


class OpenMessage(TypedDict):
    """Replace a node by its inner graph, or close it again."""

    kind: Literal["expand", "collapse"]
    node: NodeId


class CheckMessage(TypedDict):
    """Check the backward of a custom Function."""

    kind: Literal["check"]
    node: AutogradNodeId


class AnswerMessage(TypedDict):
    """The reader's answer at a node: the typed text, or None for a click."""

    kind: Literal["answer"]
    node: AutogradNodeId
    text: str | None


class RevealMessage(TypedDict):
    """Reveal the answer at a node; None for all answers."""

    kind: Literal["reveal"]
    node: AutogradNodeId | None
