"""Updates of a graph that follows the program: changes, inputs, differences, the quiz."""

from __future__ import annotations

from typing import Literal, TypedDict

from .values import AutogradNodeId, Count, JsonNumber


class BoxModel(TypedDict):
    """The module that the program has selected."""

    path: str
    """Its namespace."""
    number: Count
    """Grows with each selection, so that the same one again is a change."""


class CheckedModel(TypedDict):
    """The result of `check` for the node of a custom Function."""

    node: AutogradNodeId
    agrees: bool
    sentence: str


class ChangeModel(TypedDict):
    """A value before and after an update."""

    name: str
    """User text."""
    was: JsonNumber
    now: JsonNumber


class UpdateModel(TypedDict):
    """The change from the graph that was shown before."""

    number: Count
    """Number of updates so far."""
    before: list[int | None] | None
    """The previous id of each node; None for a new node. None as a whole if the structure did not
    change, so that nothing moves."""
    words: str
    """The change of the structure; "" where a node was opened or closed. User text."""
    changes: list[ChangeModel]
    """Leaves and outputs with a new value."""


class NumberInputModel(TypedDict):
    """A value of a leaf that the reader can set in the drawing, as with a slider."""

    node: AutogradNodeId
    name: str
    """User text."""
    at: list[Count]
    """Its index in the leaf, one entry per dimension."""
    min: float
    max: float
    step: float


class DifferenceModel(TypedDict):
    """A finite difference for the gradient of a leaf."""

    node: AutogradNodeId
    quotient: str
    """"Δloss/Δw". User text."""
    value: JsonNumber
    agrees: bool
    """Whether it agrees with the gradient."""


class QuestionModel(TypedDict):
    """A quiz question at one node."""

    node: AutogradNodeId
    name: str
    """The node's label. User text."""
    state: Literal["open", "wrong", "right", "revealed"]
    hint: str | None
    """A hint after a wrong answer. User text."""
    answer: str | None
    """The number, once answered correctly or revealed."""


class QuizModel(TypedDict):
    """A quiz."""

    what: Literal["grad", "value", "order"]
    questions: list[QuestionModel]


class ScoreModel(TypedDict):
    """The reader's score; a question counts as right even after wrong answers."""

    right: Count
    wrong: Count
    """Number of wrong answers."""
    revealed: Count
    of: Count
