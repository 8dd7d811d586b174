"""Stepping through what is inside of open nodes: a finer place within one step of backward."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ..graph.arguments import read_int
from ..schema.backward import StepModel
from ..schema.graph import NodeModel
from ..sources.graph_source import GraphSource
from .controllers import Controller
from .graph_traits import GraphTraits


class InnerSteps:
    """The steps of a pass, and before each what is inside of its node, where that is open.

    A place among them is a cursor, and after how many of the calls inside of the node that its last
    step ran; 0 of them after all of the step, which is when the node passes on.
    """

    def __init__(self, steps: Sequence[StepModel], nodes: Sequence[NodeModel]) -> None:
        self.steps = steps  # the steps of the pass
        self.nodes = nodes  # the nodes of the graph, open ones with their calls
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


class InnerController(Controller[GraphTraits]):
    """Steps through what is inside of nodes that are open."""

    _known: InnerSteps | None = None

    @property
    def inner(self) -> int:
        """See `GraphWidget.inner`."""
        widget = self.widget
        at, inner = widget._inner
        is_here = inner > 0 and at == widget.cursor and inner <= len(self._calls)
        return inner if is_here else 0

    def set_inner(self, given: int) -> None:
        """Go to a place within the last step."""
        total, cursor = len(self._calls), self.widget.cursor
        instead = f"Give it a number of calls, 0 to {total}."
        inner = read_int(given, "inner was given ", instead)
        if not 0 <= inner <= total:
            raise ValueError(
                f"inner was given {inner}, but "
                + (
                    f"inside of the node that step {cursor} ran are {total} calls. {instead}"
                    if total
                    else f"with the cursor at {cursor} no node runs that is open: open it "
                    "with expand(), and set the cursor to the step that runs it."
                )
            )
        self._go(cursor, inner)

    @property
    def _order(self) -> InnerSteps:
        """The steps with what is inside of the nodes that are open now."""
        steps, source = self.widget._steps, self.stage.source
        nodes = [] if source is None else source.model["nodes"]
        known = self._known
        if known is None or known.steps is not steps or known.nodes is not nodes:
            self._known = known = InnerSteps(steps, nodes)
        return known

    @property
    def _calls(self) -> Sequence[int]:
        """The calls inside of the node that the last step ran."""
        return self._order.calls(self.widget.cursor)

    @property
    def running_node(self) -> int | None:
        """The node or the call that the last step ran; None before the first and after all."""
        cursor, inner, steps = self.widget.cursor, self.inner, self.widget._steps
        if inner:
            return self._calls[inner - 1]
        return steps[cursor - 1]["node"] if 0 < cursor < len(steps) else None

    def cursor_of(self, node: int) -> int | None:
        """Return the cursor at which a node is as it is now; None for where the others are."""
        cursor, inner = self.widget.cursor, self.inner
        is_before = inner > 0 and self._order.is_before(cursor, inner, node)
        return cursor - 1 if is_before else None

    def move(self, by: int, from_start: bool) -> None:
        """Move by a number of steps and calls, as `CursorController.move_cursor` by steps."""
        cursor, inner = (0, 0) if from_start else (self.widget.cursor, self.inner)
        self._go(*self._order.moved(cursor, inner, by))

    def _go(self, cursor: int, inner: int) -> None:
        """Go to a cursor: within its last step after some of the calls, or after all of it."""
        widget = self.widget
        with self.stage.change():
            if inner or widget._inner[1]:
                widget._inner = [cursor, inner]
            widget.cursor = cursor

    def is_call(self, node: Any) -> bool:
        """Whether it is the id of a call inside of an open node."""
        nodes = self._order.nodes
        return type(node) is int and 0 <= node < len(nodes) and nodes[node]["kind"] == "call"

    def run_to(self, source: GraphSource, node: int | str) -> None:
        """Go to where a node or a call has just run."""
        if not self.is_call(node):
            self._go(source.find(node), 0)
            return
        assert isinstance(node, int)
        inside = source.model["nodes"][node]["inside"]
        assert inside is not None
        cursor = source.find(inside)
        self._go(cursor, 1 + self._order.calls(cursor).index(node))

    def validate(self, trait: str, value: Any) -> Any:
        """Return a value of the trait ``_inner``; the start for what the browser may not send."""
        if trait != "_inner":
            return value
        is_place = isinstance(value, (list, tuple)) and [type(each) for each in value] == [int, int]
        return [max(0, each) for each in value] if is_place else [0, 0]

    def react(self, trait: str) -> None:
        """Describe another call; forget the place within a step that is left."""
        widget = self.widget
        if trait == "_inner":
            self.stage.refresh()
        elif trait == "cursor" and widget._inner[1] and widget._inner[0] != widget.cursor:
            widget._inner = [0, 0]

    def on_reopened(self, source: GraphSource) -> None:  # noqa: ARG002
        """Leave a node that is closed now."""
        if self.widget._inner[1] and not self.inner:
            self.widget._inner = [0, 0]
