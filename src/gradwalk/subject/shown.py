"""What a widget shows at one moment, for whatever is made of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..wire import FindingModel
from .subject import Subject

MOST_SHOWN = 200
"""Nodes of a graph whose constants are drawn unasked."""


def read_constants(constants: Any) -> bool | None:
    """Whether constants are to be drawn, checked; None for nobody said."""
    if constants not in (True, False, None):
        raise TypeError(
            f"constants was given {constants!r}. Give it True to draw operands that need no grad, "
            "False to leave them out, or None to draw them in small graphs only."
        )
    return None if constants is None else bool(constants)


def are_small(subjects: Iterable[Subject]) -> bool:
    """Whether constants are drawn unasked: they would hide the rest of a large graph."""
    return all(len(subject.drawn) <= MOST_SHOWN for subject in subjects)


@dataclass(frozen=True)
class Shown:
    """What a widget shows: pictures, pages and files are made of it.

    Attributes:
        subject: The graph, its pass and its cursor.
        direction: Which way gradients flow in the drawing.
        constants: Whether operands that need no grad are drawn.
        selected: The id of the selected node, or None.
        findings: What was found when it was asked; None before that.
    """

    subject: Subject
    direction: str
    constants: bool
    selected: int | None = None
    findings: list[FindingModel] | None = None


@runtime_checkable
class Showing(Protocol):
    """A widget that shows one graph."""

    def _shown(self) -> Shown:
        """What it shows, brought up to date.

        Raises:
            ValueError: It is closed.
        """
        ...
