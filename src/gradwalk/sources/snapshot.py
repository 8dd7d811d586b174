"""The state of a widget at one moment, for pictures, pages and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..schema.findings import FindingModel
from .graph_source import GraphSource

_MOST_NAMED = 20

MOST_SHOWN = 200
"""Most nodes of a graph whose constants are drawn by default."""


def read_constants(constants: Any) -> bool | None:
    """Check the argument ``constants``; None means the default."""
    if constants is not None and not isinstance(constants, bool):
        raise TypeError(
            f"constants was given {constants!r}. Use True to draw operands that need no grad, "
            "False to leave them out, or None to draw them in small graphs only."
        )
    return constants


def are_small(subjects: Iterable[GraphSource]) -> bool:
    """Return whether constants are drawn by default: they would hide the rest of a large graph."""
    return all(subject.size <= MOST_SHOWN for subject in subjects)


@dataclass(frozen=True)
class Snapshot:
    """The state that a widget shows, from which pictures, pages and files are made.

    Attributes:
        subject: The graph, its pass and its cursor.
        direction: The direction of gradients in the drawing.
        constants: Whether operands that need no grad are drawn.
        selected: The id of the selected node, or None.
        findings: The findings, if they were computed; None before that.
        inner: The number of completed calls inside the open node of the last step; 0 after the
            whole step.
    """

    subject: GraphSource
    direction: str
    constants: bool
    selected: int | None = None
    findings: list[FindingModel] | None = None
    inner: int = 0

    def explain(self, name: str) -> str:
        """Explain the ``.grad`` of each leaf of a name, a line for each; ValueError without any."""
        leaves = {
            node: data["name"]
            for node, data in self.subject.drawn.nodes(data=True)
            if data["kind"] == "leaf" and data["name"] is not None
        }
        found = [node for node, called in leaves.items() if called == name]
        if not found:
            names = sorted(set(leaves.values()))
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            listed = f"Give one of {', '.join(map(repr, names[:_MOST_NAMED]))}{more}."
            raise ValueError(
                f"explain_grad() was given {name!r}, which does not name a leaf of this graph. "
                + (listed if names else "No leaf of it has a name.")
            )
        details = (self.subject.details(node) for node in found)
        return "\n".join(each["explained"] or each["about"] for each in details)


@runtime_checkable
class HasGraphs(Protocol):
    """A widget or a comparison, of one graph or of several."""

    def _graphs_shown(self) -> Mapping[str, Snapshot]:
        """Return the state of each graph that is shown, by its label."""
        ...


@runtime_checkable
class TakesSnapshots(Protocol):
    """A widget that shows one graph."""

    def _shown(self) -> Snapshot:
        """Return its current state; raise ValueError if it is closed."""
        ...
