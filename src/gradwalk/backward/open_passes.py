"""Find the backward pass that an open widget or recording holds for a loss."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

from torch.autograd.graph import Node

from ..graph.capture import Capture
from .recorded_run import RecordedRun


class Source(Protocol):
    """A graph whose backward passes are recorded."""

    @property
    def captured(self) -> Capture:
        """The graph."""
        ...

    @property
    def last_run(self) -> RecordedRun | None:
        """The latest backward pass; None before the first."""
        ...


_sources: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def announce(source: Source) -> None:
    """Make a source findable for as long as it lives."""
    _sources[next(_numbers)] = source


def source_of(outputs: Sequence[tuple[Node, int]]) -> Source | None:
    """Find the latest source of a graph, preferably one with a recorded pass.

    Args:
        outputs: The node and output number of each output of the graph.
    """
    sources: list[Source] = [source for _, source in sorted(_sources.items(), reverse=True)]
    same = [source for source in sources if _outputs(source.captured) == list(outputs)]
    return next((each for each in same if each.last_run is not None), same[0] if same else None)


def _outputs(captured: Capture) -> list[tuple[Node, int]]:
    return [(captured.nodes[node], number) for node, number in captured.roots]
