"""What Python and the browser share of a widget, by the names of traits, and what they ask."""

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
from .graph import DtypesModel, GraphModel
from .updates import CheckedModel, DifferenceModel, KnobModel, QuizModel, ScoreModel, UpdateModel
from .values import AutogradNodeId, Count, DirectionChoice, NodeId, Values
from .what_if import EditModel, ShareModel, WhatIfModel


class AskedTraits(TypedDict, total=False):
    """What takes a while on a large graph; None or left out while it is not known."""

    _memory: MemoryModel | None
    _dtypes: DtypesModel | None
    findings: list[FindingModel] | None


class LaboratoryTraits(TypedDict, total=False):
    """What is asked of a graph's gradients; left out where nobody can."""

    edits: list[EditModel]
    """What is changed about gradients on their way, in order. Either side sets it."""
    what_if: WhatIfModel | None
    """What comes of that; None without edits."""
    _checked: CheckedModel | None
    """What a check of a custom backward found, once one was asked for."""
    _shares: list[ShareModel]
    """Of the selected node's gradient, the largest first; none where it has no parts."""


class LiveTraits(TypedDict, total=False):
    """What a graph has that follows what happens; None or left out of one that does not."""

    _update: UpdateModel | None
    """What became of the graph that was shown before."""
    _values: list[Values | None] | None
    """What the nodes of ``graph`` hold now, instead of what stands in it; None when that is so."""
    _openable: list[NodeId] | None
    """The nodes that can be opened and closed."""
    _inner: list[Count]
    """A cursor, and after how many of the calls inside of the open node that ran there we stand;
    0 of them after all of its step. It says nothing of another cursor. Either side sets it."""
    _knobs: list[KnobModel] | None
    """The leaves whose numbers can be set in the picture."""
    _differences: list[DifferenceModel] | None
    """What finite differences say of leaves, once that was asked."""
    _quiz: QuizModel | None
    """What the reader is asked now."""
    score: ScoreModel | None
    """How the reader fares in it."""
    rank: int | None
    """Of a graph of several ranks, whose numbers are shown. Either side sets it."""
    _ranks: list[Count]
    """Those that can be shown instead; none where nobody could show them."""


class SharedTraits(TypedDict):
    """Those of a graph and of a comparison alike."""

    _fault: str | None
    """A sentence from Python to be shown as an error."""
    selected: int | None
    """A node; in a comparison a place in ``members``."""
    direction: DirectionChoice
    constants: bool
    """Whether operands that need no grad, and cuts, are drawn."""
    cursor: int
    """How many steps of the recorded backward have run in what is shown."""


class Traits(SharedTraits, AskedTraits, LaboratoryTraits, LiveTraits):
    """Those of a graph."""

    graph: GraphModel
    details: DetailsModel | None
    """Of the selected node; while none is, of the node that runs."""
    state: StateModel
    steps: list[StepModel]
    run: RunModel | None
    transport: TransportModel


class CompareTraits(SharedTraits):
    """Those of a comparison."""

    panes: list[PaneModel]
    members: list[list[int | None]]
    """For each node of all graphs laid on top of each other its number in each graph, or None."""
    details: list[DetailsModel | None]
    """One per pane; None where the selected node is not."""
    passes: list[PassModel]
    """One per pane."""
    steps: list[MergedStepModel]
    table: LeafTableModel
    errors: ErrorsModel | None
    """How far the numbers of two graphs are apart; None where none were compared."""
    compiled: list[CompiledModel]


class StartMessage(TypedDict):
    """Runs the real backward once and records it, then puts the cursor there; None for the end."""

    kind: Literal["start"]
    cursor: int | None


class AskMessage(TypedDict):
    """Asks for what is not told unasked, because it takes a while on a large graph."""

    kind: Literal["memory", "diagnose"]


class TurnMessage(TypedDict):
    """The reader set a number of a leaf in the picture."""

    kind: Literal["turn"]
    node: AutogradNodeId
    at: list[Count]
    value: float


class OpenMessage(TypedDict):
    """Shows what is inside of a node in its place, or hides it again."""

    kind: Literal["expand", "collapse"]
    node: NodeId


class CheckMessage(TypedDict):
    """Asks whether the backward of a custom Function is right."""

    kind: Literal["check"]
    node: AutogradNodeId


class AnswerMessage(TypedDict):
    """The reader answered at a node: with what was typed, or None for a click on it."""

    kind: Literal["answer"]
    node: AutogradNodeId
    text: str | None


class RevealMessage(TypedDict):
    """The reader gave up at a node, or the whole quiz: None."""

    kind: Literal["reveal"]
    node: AutogradNodeId | None
