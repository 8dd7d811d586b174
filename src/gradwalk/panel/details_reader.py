"""Share work between the details of several nodes, or of one node at several cursors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backward.recorded_run import RecordedRun
from ..derivatives.chain import Along
from ..graph.guarded import Guarded, Part
from ..torch_api.summary import Summaries
from ..tracing.annotate import Annotated


class DetailsReader:
    """Caches what the details of one graph's nodes share, for one pass.

    It holds the tensors it has read, so use it for one call and do not keep it.

    Attributes:
        captured: The graph, and the autograd nodes and tensors behind it.
        summaries: The cached summaries of tensors.
        along: The derivatives along edges.
    """

    def __init__(self, captured: Annotated, run: RecordedRun | None) -> None:
        """Create an empty cache.

        Args:
            captured: The graph.
            run: The shown backward pass; None before the first.
        """
        self.captured = captured
        self.summaries = Summaries()
        self.along = Along(captured, run)
        self._parts: tuple[int, Parts] = -1, Parts()

    def parts_of(self, node: int) -> Parts:
        """Return the parts of a node's details; the cache holds the last node only."""
        if self._parts[0] != node:
            self._parts = node, Parts()
        return self._parts[1]


class Parts(Guarded):
    """The parts of one node's details that are the same at every cursor."""

    def __init__(self) -> None:
        super().__init__()
        self._built: dict[tuple[str, bool], Any] = {}
        self._once: Any = None

    def build(
        self, part: str, made_by: Callable[[], Part], instead: Part, *, filled: bool = False
    ) -> Part:
        """Return one part, built on first use.

        Args:
            part: Its name.
            made_by: Builds it.
            instead: The value if that raises.
            filled: Whether it includes the numbers of the pass, if there are two variants.
        """
        if (part, filled) not in self._built:
            self._built[part, filled] = super().build(part, made_by, instead)
        found: Part = self._built[part, filled]
        return found

    def once(self, made_by: Callable[[], Part]) -> Part:
        """Return a value that several parts share, built on first use.

        Args:
            made_by: Builds it; always the same function.
        """
        if self._once is None:
            self._once = made_by()
        found: Part = self._once
        return found
