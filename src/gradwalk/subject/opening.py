"""Which compiled nodes of a live graph are open, and what is known of what is inside."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from torch.fx import Node

from ..backward.kept import Kept
from ..backward.recorded_pass import RecordedPass
from ..backward.run import Run
from ..forward.annotate import Annotated
from ..graph.adjacency import predecessors, successors
from ..graph.compiled import CannotOpenError, is_compiled
from ..graph.engine import NO_TASK, current_task
from ..graph.guarded import could_not
from ..program.inside import Inside, read_inside, with_inside
from ..program.inside_run import InsideNumbers, run_inside

_T = TypeVar("_T")


@dataclass(frozen=True)
class Place:
    """A node that is inside of another.

    Attributes:
        inside: The program that it is of.
        fx: The call, or the saved tensor.
    """

    inside: Inside
    fx: Node


class Opening:
    """A graph of which some compiled nodes can be open.

    Attributes:
        captured: The graph as it is drawn now.
        openable: The compiled nodes.
        inside: What is inside of the nodes that are open.
        places: What each node is that is inside of another.
    """

    def __init__(self, closed: Annotated, max_bytes: int) -> None:
        """Begin with all of them closed.

        Args:
            closed: The graph.
            max_bytes: Of large tensors inside of one node to keep.
        """
        self.captured = closed
        self.openable = [i for i, node in enumerate(closed.nodes) if is_compiled(node)]
        self.inside: dict[int, Inside] = {}
        self._closed = closed
        self._max_bytes = max_bytes
        self.places: dict[int, Place] = {}
        self._numbers: dict[int, tuple[Run, InsideNumbers | str]] = {}

    def expand(self, node: int) -> None:
        """Open a compiled node.

        Raises:
            CannotOpenError: Why it cannot be.
        """
        if node in self.inside:
            return
        if node not in self.openable:
            raise CannotOpenError(self._no_box(node))
        self.inside[node] = read_inside(self._closed, node)
        self._draw()

    def collapse(self, node: int) -> None:
        """Close it again. Given something inside of it, too.

        Raises:
            CannotOpenError: It is none that could be open.
        """
        place = self.places.get(node)
        node = node if place is None else place.inside.node
        if node not in self.openable:
            raise CannotOpenError(self._no_box(node))
        if self.inside.pop(node, None) is not None:
            self._numbers.pop(node, None)
            self._draw()

    def _no_box(self, node: int) -> str:
        total = len(self.captured.drawn)
        if not 0 <= node < total:
            return f"There is no node {node}: this graph has nodes 0 to {total - 1}."
        op = self.captured.drawn.nodes[node]["op"]
        found = self.openable
        return (
            f"Node {node} ({op}) has nothing inside that could be shown. Give a node that "
            "torch.compile made"
            + (f": {', '.join(map(str, found[:10]))}." if found else "; this graph has none.")
        )

    def _draw(self) -> None:
        opened = [self.inside[node] for node in sorted(self.inside)]
        self.captured = with_inside(self._closed, opened) if opened else self._closed
        calls = [Place(inside, fx) for inside in opened for fx in inside.calls]
        saved = [Place(inside, fx) for inside in opened for fx in inside.saved]
        first = len(self._closed.nodes)
        last = len(self.captured.drawn) - len(saved)
        self.places = dict(enumerate(calls, first)) | dict(enumerate(saved, last))

    def moved(self, known: Mapping[int, _T]) -> dict[int, _T]:
        """What is known by the ids of the closed graph, by the ids of the one that is drawn."""
        first, by = len(self._closed.nodes), self.captured.calls
        return {node if node < first else node + by: value for node, value in known.items()}

    def edges(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """(source, target, attributes) of the edges inside that gradients flow along.

        In this order they stand behind the graph's own in what is drawn.
        """
        if not self.places:
            return  # most graphs: none of their edges is looked at
        for source, target, edge in self.captured.drawn.edges(data=True):
            if edge.get("kind") == "gradient" and target in self.places:
                yield source, target, edge

    def flowed(self, recorded: RecordedPass) -> Iterator[tuple[bool, Kept | None]]:
        """For each of `edges`, whether something flowed along it; and what, where that is known."""
        for source, target, edge in self.edges():
            node = self.places[target].inside.node
            step = recorded.run.steps.get(node)
            if step is None:
                yield False, None
            elif source == node:
                yield True, step.grad_outputs[edge["input_nr"]]
            else:
                yield True, self.given(self.places[source], recorded, edge["input_nr"])

    def compiled_of_edges(self) -> list[int]:
        """For each of `edges` the compiled node that it is inside of."""
        return [self.places[target].inside.node for _, target, _ in self.edges()]

    def given(self, place: Place, recorded: RecordedPass, part: int = 0) -> Kept | None:
        """What a call gave; None where that is not known."""
        numbers = self.numbers(place.inside.node, recorded)
        if isinstance(numbers, str):
            return None
        parts = numbers.given.get(place.fx, [])
        return parts[part] if part < len(parts) else None

    def numbers(self, node: int, recorded: RecordedPass) -> InsideNumbers | str:
        """What the calls inside of a node gave, worked out when it is first asked; or why not."""
        run = recorded.run
        if current_task() != NO_TASK:
            return "A backward pass is running, and nothing is worked out within one."
        known = self._numbers.get(node)
        if known is None or known[0] is not run:
            self._numbers[node] = known = run, self._run(node, run)
        return known[1]

    def _run(self, node: int, run: Run) -> InsideNumbers | str:
        step = run.steps.get(node)
        if step is None:
            return "Backward did not run this node, so nothing flowed inside."
        try:
            return run_inside(self.inside[node], self._closed.nodes[node], step, self._max_bytes)
        except CannotOpenError as why:
            return str(why)
        except Exception as error:  # whatever an operation or a backend may raise
            return could_not("the gradients inside", error)

    def afresh(self) -> Opening:
        """The same nodes open, to be opened and closed by somebody else."""
        other = copy.copy(self)
        other.inside, other._numbers = dict(self.inside), {}
        return other

    def forget(self) -> None:
        """Let go of what was worked out."""
        self._numbers.clear()


def boxes_inside(opening: Opening) -> tuple[dict[int, str | None], dict[str, str]]:
    """The boxes in which what is inside of compiled nodes is drawn.

    Args:
        opening: The graph with what is open of it.

    Returns:
        Node -> path of its box: the compiled node's own, with the modules in it; None of a leaf
        that compiled code alone takes, so that it is drawn with the call that gives its gradient.
        Path -> class of the module.
    """
    captured = opening.captured
    drawn = captured.drawn
    ids = opening.openable
    own: dict[int, str] = {}
    for node in opening.inside:
        number = f" {ids.index(node) + 1}" if len(ids) > 1 else ""
        outer = drawn.nodes[node].get("namespace")
        own[node] = "/".join(filter(None, (outer, f"{drawn.nodes[node]['op']}{number}")))
    boxes: dict[int, str | None] = dict(own)
    classes: dict[str, str] = {}
    for node, place in opening.places.items():
        if drawn.nodes[node]["kind"] == "call":
            path = place.inside.modules.get(place.fx)
            boxes[node] = "/".join(filter(None, (own[place.inside.node], path)))
    for node, inside in opening.inside.items():
        for path, name in inside.classes.items():
            classes["/".join(filter(None, (own[node], path)))] = name
        for target in successors(captured.graph)[node]:
            takers = predecessors(captured.graph)[target]
            if drawn.nodes[target]["kind"] == "leaf" and takers.keys() <= opening.inside.keys():
                boxes[target] = None
    return boxes, classes
