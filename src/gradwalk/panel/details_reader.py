"""What the details of several nodes, or of one at several cursors, have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backward.recorded_run import RecordedRun
from ..derivatives.chain import Along
from ..graph.guarded import Guarded, Part
from ..torch_api.summary import Summaries
from ..tracing.annotate import Annotated


class DetailsReader:
    """Looking at nodes of one graph, at one pass: what their details share is worked out once.

    It holds tensors that it has read, so it is for one call, and nobody keeps it.

    Attributes:
        captured: The graph, and the autograd nodes and tensors behind it.
        summaries: Of tensors.
        along: The derivatives along edges.
    """

    def __init__(self, captured: Annotated, run: RecordedRun | None) -> None:
        """Begin.

        Args:
            captured: The graph.
            run: The backward pass that is shown; None before the first.
        """
        self.captured = captured
        self.summaries = Summaries()
        self.along = Along(captured, run)
        self._parts: tuple[int, Parts] = -1, Parts()

    def parts_of(self, node: int) -> Parts:
        """The parts of a node's details; only those of the last node are remembered."""
        if self._parts[0] != node:
            self._parts = node, Parts()
        return self._parts[1]


class Parts(Guarded):
    """The parts of one node's details that are the same at every cursor, or not there at all."""

    def __init__(self) -> None:
        super().__init__()
        self._built: dict[tuple[str, bool], Any] = {}
        self._once: Any = None

    def build(
        self, part: str, made_by: Callable[[], Part], instead: Part, *, filled: bool = False
    ) -> Part:
        """One part, built when it is first asked for.

        Args:
            part: What it is called.
            made_by: Makes it.
            instead: What to take when that fails.
            filled: Whether it is the one with the numbers of the pass in it, if there are two.
        """
        if (part, filled) not in self._built:
            self._built[part, filled] = super().build(part, made_by, instead)
        found: Part = self._built[part, filled]
        return found

    def once(self, made_by: Callable[[], Part]) -> Part:
        """What several parts make together, made when it is first asked for.

        Args:
            made_by: Makes it, always the same.
        """
        if self._once is None:
            self._once = made_by()
        found: Part = self._once
        return found
