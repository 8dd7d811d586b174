"""What a widget shows at one moment, for whatever is made of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..schema.findings import FindingModel
from .graph_source import GraphSource

_MOST_NAMED = 20

MOST_SHOWN = 200
"""Nodes of a graph whose constants are drawn unasked."""


def read_constants(constants: Any) -> bool | None:
    """Whether constants are to be drawn, checked; None for nobody said."""
    if constants is not None and not isinstance(constants, bool):
        raise TypeError(
            f"constants was given {constants!r}. Give it True to draw operands that need no grad, "
            "False to leave them out, or None to draw them in small graphs only."
        )
    return constants


def are_small(subjects: Iterable[GraphSource]) -> bool:
    """Whether constants are drawn unasked: they would hide the rest of a large graph."""
    return all(subject.size <= MOST_SHOWN for subject in subjects)


@dataclass(frozen=True)
class Snapshot:
    """What a widget shows: pictures, pages and files are made of it.

    Attributes:
        subject: The graph, its pass and its cursor.
        direction: Which way gradients flow in the drawing.
        constants: Whether operands that need no grad are drawn.
        selected: The id of the selected node, or None.
        findings: What was found when it was asked; None before that.
        inner: After how many of the calls inside of the open node that the last step ran we stand;
            0 after all of the step.
    """

    subject: GraphSource
    direction: str
    constants: bool
    selected: int | None = None
    findings: list[FindingModel] | None = None
    inner: int = 0

    def explain(self, name: str) -> str:
        """Why the ``.grad`` of a leaf is as it is.

        Args:
            name: What it is called.

        Returns:
            Sentences; a line for each leaf of that name.

        Raises:
            ValueError: There is none.
        """
        leaves = {
            node: data["name"]
            for node, data in self.subject.drawn.nodes(data=True)
            if data["kind"] == "leaf" and data["name"] is not None
        }
        found = [node for node, called in leaves.items() if called == name]
        if not found:
            names = sorted(set(leaves.values()))
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            raise ValueError(
                f"explain_grad() was given {name!r}, which is no leaf of this graph. Give one that "
                f"is: {', '.join(map(repr, names[:_MOST_NAMED])) or 'none has a name'}{more}."
            )
        details = (self.subject.details(node) for node in found)
        return "\n".join(each["explained"] or each["about"] for each in details)


@runtime_checkable
class TakesSnapshots(Protocol):
    """A widget that shows one graph."""

    def _shown(self) -> Snapshot:
        """What it shows, brought up to date.

        Raises:
            ValueError: It is closed.
        """
        ...
