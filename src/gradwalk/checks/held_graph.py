"""Graphs that are alive, and what keeps them so."""

from __future__ import annotations

from dataclasses import dataclass

from ..english import plural
from ..graph.labels import in_bytes
from ..result import returned_by


@returned_by("held(loss)")
@dataclass(frozen=True)
class HeldGraph:
    """Autograd graphs that are alive, and what keeps them so.

    Attributes:
        graphs: The number of graphs: those that one list, dict or object holds are together.
        bytes: The memory in bytes that is freed when the holders let go: of results and of tensors
            saved for backward. Memory that something else holds too is not counted.
        holders: The chains of names that lead to the graphs, such as
            "history[0..3] (list, global of train.py)".
        line: The line that computed the latest result, "train.py:12", if `gradwalk.watch` saw it;
            else None.
        advice: What to do so that the graphs are freed.
    """

    graphs: int
    bytes: int
    holders: list[str]
    line: str | None
    advice: str

    def __str__(self) -> str:
        since = f"; computed at {self.line}" if self.line else ""
        size = f"{plural(self.graphs, 'graph')}, {in_bytes(self.bytes)}"
        return f"{size}: {'; '.join(self.holders)}{since}. {self.advice}".rstrip()
