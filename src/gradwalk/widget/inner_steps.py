"""Stepping through what is inside of open nodes: a finer place within one step of backward."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import traitlets

from ..graph.integers import read_int
from ..schema import NodeModel, StepModel
from ..sources.graph_source import GraphSource
from ..torch_api.modes import grad_mode_kept
from .traits import reacts
from .updating import UpdatingWidget


class InnerSteps:
    """The steps of a pass, and before each what is inside of its node, where that is open.

    A place among them is a cursor, and after how many of the calls inside of the node that its last
    step ran; 0 of them after all of the step, which is when the node passes on.

    Attributes:
        steps: The steps of the pass.
        nodes: The nodes of the graph, open ones with their calls.
    """

    def __init__(self, steps: Sequence[StepModel], nodes: Sequence[NodeModel]) -> None:
        self.steps = steps
        self.nodes = nodes
        self._calls: dict[int, list[int]] = {}
        for node in nodes:
            if node["kind"] == "call" and node["inside"] is not None:
                self._calls.setdefault(node["inside"], []).append(node["id"])
        counts = (len(self._calls.get(step["node"], ())) for step in steps)
        self._ends = [0, *accumulate(1 + count for count in counts)]

    def calls(self, cursor: int) -> Sequence[int]:
        """The calls inside of the node that a step ran, in the order in which they ran."""
        if not 0 < cursor <= len(self.steps):
            return ()
        return self._calls.get(self.steps[cursor - 1]["node"], ())

    def moved(self, cursor: int, inner: int, by: int) -> tuple[int, int]:
        """The place so many steps on, or back, at most at an end."""
        at = self._ends[cursor - 1] + inner if inner else self._ends[cursor]
        at = max(0, min(at + by, self._ends[-1]))
        found = bisect_left(self._ends, at)
        return found, 0 if self._ends[found] == at else at - self._ends[found - 1]

    def is_before(self, cursor: int, inner: int, node: int) -> bool:
        """Whether a node is within a step as it was before it: all that it has not got to."""
        ran = self.steps[cursor - 1]["node"]
        if node != ran and self.nodes[node]["inside"] != ran:
            return True
        return node in self.calls(cursor)[inner:]


class InnerWidget(UpdatingWidget):
    """A widget that steps through what is inside of nodes that are open. Base of `GraphWidget`."""

    _inner: list[int] = traitlets.Any([0, 0]).tag(sync=True)  # type: ignore[assignment]

    _order: InnerSteps | None = None

    @property
    def inner(self) -> int:
        """After how many of the calls inside of the node that the last step ran; 0 after all.

        Raises:
            TypeError: It is set to what is no whole number.
            ValueError: It is set to a number of calls that are not there, as where the node is not
                open.
            RuntimeError: It is set while a backward pass is running.
        """
        at, inner = self._inner
        is_here = inner > 0 and at == self.cursor and inner <= len(self._calls)
        return inner if is_here else 0

    @inner.setter
    def inner(self, given: int) -> None:
        self._refuse_closed()
        self._refuse_while_running("Moving within a step")
        total = len(self._calls)
        instead = f"Give it a number of calls, 0 to {total}."
        inner = read_int(given, "inner was given ", instead)
        if not 0 <= inner <= total:
            raise ValueError(
                f"inner was given {inner}, but "
                + (
                    f"inside of the node that step {self.cursor} ran are {total} calls. {instead}"
                    if total
                    else f"with the cursor at {self.cursor} no node runs that is open: open it "
                    "with expand(), and set the cursor to the step that runs it."
                )
            )
        self._stand(self.cursor, inner)

    @property
    def _steps_shown(self) -> InnerSteps:
        """The steps with what is inside of the nodes that are open now."""
        steps, behind = self.steps, self._behind
        nodes = [] if behind is None else behind.model["nodes"]
        known = self._order
        if known is None or known.steps is not steps or known.nodes is not nodes:
            self._order = known = InnerSteps(steps, nodes)
        return known

    @property
    def _calls(self) -> Sequence[int]:
        """The calls inside of the node that the last step ran."""
        return self._steps_shown.calls(self.cursor)

    @property
    def _running_node(self) -> int | None:
        """The node or the call that the last step ran; None before the first and after all."""
        cursor, inner = self.cursor, self.inner
        if inner:
            return self._calls[inner - 1]
        return self.steps[cursor - 1]["node"] if 0 < cursor < len(self.steps) else None

    def _cursor_of(self, node: int) -> int | None:
        """The cursor at which a node is as it is now; None for where the others are."""
        cursor, inner = self.cursor, self.inner
        is_before = inner > 0 and self._steps_shown.is_before(cursor, inner, node)
        return cursor - 1 if is_before else None

    def _move(self, by: int, *, from_start: bool = False) -> None:
        cursor, inner = (0, 0) if from_start else (self.cursor, self.inner)
        self._stand(*self._steps_shown.moved(cursor, inner, by))

    def _stand(self, cursor: int, inner: int) -> None:
        """Stand at a cursor, within its last step after some of the calls, or after all of it."""
        with self._change():
            if inner or self._inner[1]:
                self._inner = [cursor, inner]
            self.cursor = cursor

    def _is_call(self, node: Any) -> bool:
        """Whether it is the id of a call inside of an open node."""
        nodes = self._steps_shown.nodes
        return type(node) is int and 0 <= node < len(nodes) and nodes[node]["kind"] == "call"

    def _find(self, subject: GraphSource, node: int | str) -> tuple[int, int]:
        """Where a node or a call has just run."""
        if not self._is_call(node):
            return subject.find(node), 0
        assert isinstance(node, int)
        inside = subject.model["nodes"][node]["inside"]
        assert inside is not None
        cursor = subject.find(inside)
        return cursor, 1 + self._steps_shown.calls(cursor).index(node)

    @traitlets.validate("_inner")
    def _check_inner(self, proposal: Any) -> list[int]:
        given = proposal["value"]
        is_place = isinstance(given, (list, tuple)) and [type(each) for each in given] == [int, int]
        return [max(0, each) for each in given] if is_place else [0, 0]

    @reacts("_inner")
    @grad_mode_kept
    def _on_inner(self, _: Any) -> None:
        self._refresh()

    @reacts("cursor")
    def _leave(self, _: Any) -> None:
        """Whoever goes elsewhere is not within the step when coming back."""
        if self._inner[1] and self._inner[0] != self.cursor:
            self._inner = [0, 0]

    def _drawn_again(self, subject: GraphSource) -> None:
        super()._drawn_again(subject)
        if self._inner[1] and not self.inner:  # what we were in is closed
            self._inner = [0, 0]
