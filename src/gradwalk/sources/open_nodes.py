"""The open nodes of a live graph, and the values inside them."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch.autograd.graph import Node

from ..backward.function_calls import is_recorded
from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_pass import RecordedPass
from ..backward.recorded_run import RecordedRun
from ..graph.guarded import could_not
from ..plugins import Hook
from ..schema.values import Values
from ..torch_api.compiled import CannotOpenError
from ..torch_api.engine import is_within_pass
from ..tracing.annotate import Annotated
from .inner_graph import Inner, Inside, InsideNumbers, with_inside
from .recorded_calls import recorded_inside

_T = TypeVar("_T")


class Opener(Protocol):
    """Opens nodes of one kind in place, whether or not a pass was recorded."""

    def places(self, nodes: Sequence[Node]) -> Sequence[int]:
        """Return the places of the autograd nodes of this kind."""

    def read(self, captured: Annotated, node: int, max_bytes: int) -> Inside:
        """Read the calls inside of a node."""


OPENERS: Hook[Opener] = Hook()
"""The kinds of nodes that open, besides those whose operations a recorded pass has."""


def opened_by(nodes: Sequence[Node]) -> dict[int, Opener]:
    """Return the opener of each node that has one."""
    return {i: opener for opener in OPENERS for i in opener.places(nodes)}


class InnerNode(NamedTuple):
    """A node inside another: the contents of the outer node, and the call or tensor."""

    inside: Inside
    inner: Inner


class Opening:
    """A graph whose nodes can be opened.

    Compiled nodes can always be opened. Nodes of custom Functions and of reentrant checkpoints can
    be opened if the shown pass has recorded the operations that they ran.
    """

    def __init__(self, closed: Annotated, max_bytes: int) -> None:
        """Begin with every node of ``closed`` closed; keep ``max_bytes`` of each inside."""
        self.captured = closed  # the graph as it is drawn now
        self.inside: dict[int, Inside] = {}  # the contents of the open nodes
        self.places: dict[int, InnerNode] = {}  # the place of each node that is inside another
        self._closed = closed
        self._max_bytes = max_bytes
        self._openers = opened_by(closed.nodes)
        self._shown: RecordedRun | None = None
        self._numbers: dict[int, tuple[RecordedRun, InsideNumbers | str]] = {}

    @functools.cached_property
    def _recordable(self) -> set[int]:
        return {i for i, node in enumerate(self._closed.nodes) if is_recorded(node)}

    @property
    def openable(self) -> list[int]:
        """The nodes that can be opened."""
        noted = () if self._shown is None else self._shown.operations
        return sorted({*self._openers, *(i for i in noted if noted[i].listed)})

    def show(self, run: RecordedRun | None) -> bool:
        """Show another pass, with its recorded operations; return whether the drawing changes."""
        if run is self._shown:
            return False
        self._shown = run
        opened = [node for node in self.inside if node in self._recordable]
        for node in opened:
            del self.inside[node]
            with contextlib.suppress(CannotOpenError):
                self.inside[node] = self._read(node)
        if opened:
            self._draw()
        return bool(opened)

    def expand(self, node: int) -> None:
        """Open a node; raise CannotOpenError, which says why, if that is impossible."""
        if node in self.inside:
            return
        self._refuse(node)
        self.inside[node] = self._read(node)
        self._draw()

    def collapse(self, node: int) -> None:
        """Close a node, given by its id or the id of a node inside."""
        place = self.places.get(node)
        node = node if place is None else place.inside.node
        self._refuse(node)
        if self.inside.pop(node, None) is not None:
            self._numbers.pop(node, None)
            self._draw()

    def _read(self, node: int) -> Inside:
        opener = self._openers.get(node)
        if opener is not None:
            return opener.read(self._closed, node, self._max_bytes)
        return recorded_inside(self._closed, node, self._shown)

    def _refuse(self, node: int) -> None:
        """Raise if a node can never be opened."""
        if node in self._openers or node in self._recordable:
            return
        total = len(self.captured.drawn)
        if not 0 <= node < total:
            raise CannotOpenError(
                f"expand() was given {node}. Give a node of this graph, from 0 to {total - 1}."
            )
        op = self.captured.drawn.nodes[node]["op"]
        found = sorted({*self._openers, *self._recordable})
        raise CannotOpenError(
            f"Node {node} ({op}) has nothing inside that could be shown. Give a node that "
            "torch.compile made, or one of a custom autograd.Function"
            + (f": {', '.join(map(str, found[:10]))}." if found else "; this graph has none.")
        )

    def _draw(self) -> None:
        opened = [self.inside[node] for node in sorted(self.inside)]
        self.captured = with_inside(self._closed, opened) if opened else self._closed
        calls = [InnerNode(inside, call) for inside in opened for call in inside.calls]
        held = [InnerNode(inside, each) for inside in opened for each in inside.held]
        first = len(self._closed.nodes)
        last = len(self.captured.drawn) - len(held)
        self.places = dict(enumerate(calls, first)) | dict(enumerate(held, last))

    def about(self, node: int) -> str:
        """Say that a node can be opened; empty if it cannot."""
        found = None if self._shown is None else self._shown.operations.get(node)
        if found is None or not found.listed:
            return ""
        what = "operation" if found.count == 1 else f"{found.count:,} operations"
        return (
            f" A double click, or expand() of the widget, shows the {what} that its backward ran "
            "in this pass."
        )

    def called(self, node: int) -> str:
        """The name of an opened node's box: its class, numbered within the class."""
        op = self._closed.graph.nodes[node]["op"]
        may = {*self._openers} if node in self._openers else self._recordable
        alike = sorted(each for each in may if self._closed.graph.nodes[each]["op"] == op)
        return op if len(alike) == 1 else f"{op} {alike.index(node) + 1}"

    def moved(self, known: Mapping[int, _T]) -> dict[int, _T]:
        """Convert a mapping by ids of the closed graph to ids of the drawing."""
        first, by = len(self._closed.nodes), self.captured.calls
        return {node if node < first else node + by: value for node, value in known.items()}

    def values(self) -> dict[int, Values]:
        """The small values inside that are not gradients."""
        places = self.places.items()
        return {node: place.inner.value for node, place in places if place.inner.value is not None}

    def edges(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """(source, target, attributes) of the edges inside, in the order of the drawing."""
        if not self.places:
            return  # the usual case
        for source, target, edge in self.captured.drawn.edges(data=True):
            if edge.get("kind") == "gradient" and target in self.places:
                yield source, target, edge

    def flowed(self, recorded: RecordedPass) -> Iterator[tuple[bool, KeptGradient | None]]:
        """For each of `edges`, whether a gradient flowed, and the gradient if known."""
        for source, target, edge in self.edges():
            node = self.places[target].inside.node
            step = recorded.run.steps.get(node)
            if step is None:
                yield False, None
            elif source == node:
                yield True, step.grad_outputs[edge["arg_nr"]]
            else:
                yield True, self.given(self.places[source], recorded, edge["arg_nr"])

    def node_of_edges(self) -> list[int]:
        """For each of `edges`, the node around it."""
        return [self.places[target].inside.node for _, target, _ in self.edges()]

    def given(self, place: InnerNode, recorded: RecordedPass, part: int = 0) -> KeptGradient | None:
        """The result of a call inside; None if unknown."""
        numbers = self.numbers(place.inside.node, recorded)
        if isinstance(numbers, str):
            return None
        parts = numbers.given.get(place.inner, [])
        return parts[part] if part < len(parts) else None

    def numbers(self, node: int, recorded: RecordedPass) -> InsideNumbers | str:
        """The results of the calls inside a node, computed on first use; or a sentence why not."""
        run = recorded.run
        if is_within_pass():
            return "A backward pass is running. Values inside are not computed during one."
        known = self._numbers.get(node)
        if known is None or known[0] is not run:
            self._numbers[node] = known = run, self._run(node, run)
        return known[1]

    def _run(self, node: int, run: RecordedRun) -> InsideNumbers | str:
        step = run.steps.get(node)
        if step is None:
            return "Backward did not run this node, so nothing flowed inside."
        try:
            return self.inside[node].numbers(step)
        except CannotOpenError as why:
            return str(why)
        except Exception as error:  # whatever an operation or a backend may raise
            return could_not("the gradients inside", error)

    def with_all_open(self) -> Opening:
        """Copy the graph with all compiled code open, if it can be."""
        other = Opening(self._closed, self._max_bytes)
        for node in sorted(other._openers):
            with contextlib.suppress(CannotOpenError):
                other.inside[node] = other._read(node)
        other._draw()
        return other

    def clone(self) -> Opening:
        """Copy which nodes are open; each copy changes separately."""
        other = copy.copy(self)
        other.inside, other._numbers = dict(self.inside), {}
        return other

    def forget(self) -> None:
        """Drop the shown pass and the computed values."""
        self._shown = None
        self._numbers.clear()


def boxes_inside(opening: Opening) -> tuple[dict[int, str | None], dict[str, str]]:
    """Return the boxes of the nodes inside open nodes, and the classes of the modules in them.

    A parameter that only opened nodes take has no box (None): it is drawn with the call that gives
    its gradient. Another such leaf was made outside of all boxes ("").
    """
    captured = opening.captured
    drawn = captured.drawn
    own: dict[int, str] = {}
    for node in opening.inside:
        outer = drawn.nodes[node].get("namespace")
        own[node] = "/".join(filter(None, (outer, opening.called(node))))
    boxes: dict[int, str | None] = dict(own)
    classes: dict[str, str] = {}
    parameters = {i for i, leaf in captured.leaves() if isinstance(leaf, torch.nn.Parameter)}
    for node, place in opening.places.items():
        if drawn.nodes[node]["kind"] == "call":
            path = place.inside.modules.get(place.inner)
            boxes[node] = "/".join(filter(None, (own[place.inside.node], path)))
    for node, inside in opening.inside.items():
        for path, name in inside.classes.items():
            classes["/".join(filter(None, (own[node], path)))] = name
        for target in captured.successors[node]:
            takers = captured.predecessors[target]
            if drawn.nodes[target]["kind"] == "leaf" and takers.keys() <= opening.inside.keys():
                boxes[target] = None if target in parameters else ""
    return boxes, classes
