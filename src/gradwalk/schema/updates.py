"""What travels of a graph that follows what happens: updates, knobs, differences and a quiz."""

from __future__ import annotations

from typing import Literal, TypedDict

from .values import AutogradNodeId, Count, JsonNumber


class CheckedModel(TypedDict):
    """The result of `check` for the node of a custom Function."""

    node: AutogradNodeId
    agrees: bool
    sentence: str


class ChangeModel(TypedDict):
    """A number that became another."""

    name: str
    """User text."""
    was: JsonNumber
    now: JsonNumber


class UpdateModel(TypedDict):
    """What became of the graph that was shown before."""

    number: Count
    """How many updates there were."""
    before: list[int | None] | None
    """Per node, which it was in the graph before; None of a new one. None as a whole where the
    structure is equal, so that nothing moves."""
    words: str
    """What changed of the structure; "" where the same graph is opened or closed. User text."""
    changes: list[ChangeModel]
    """Leaves and outputs that hold another number."""


class KnobModel(TypedDict):
    """A number of a leaf, which can be set in the picture, like with a slider."""

    node: AutogradNodeId
    name: str
    """User text."""
    at: list[Count]
    """Which number of the leaf it is, a place for each dimension."""
    min: float
    max: float
    step: float


class DifferenceModel(TypedDict):
    """What a finite difference says of the gradient of a leaf."""

    node: AutogradNodeId
    quotient: str
    """"Δloss/Δw". User text."""
    value: JsonNumber
    agrees: bool
    """Whether it says the same as the gradient."""


class QuestionModel(TypedDict):
    """What the reader is asked at one node."""

    node: AutogradNodeId
    name: str
    """What the node is called. User text."""
    state: Literal["open", "wrong", "right", "revealed"]
    hint: str | None
    """After a wrong answer, what may help. User text."""
    answer: str | None
    """The number, once it is right or revealed."""


class QuizModel(TypedDict):
    """What the reader is asked."""

    what: Literal["grad", "value", "order"]
    questions: list[QuestionModel]


class ScoreModel(TypedDict):
    """How the reader fares; a question answered wrongly first, and then rightly, is right."""

    right: Count
    wrong: Count
    """Answers that were wrong."""
    revealed: Count
    of: Count
