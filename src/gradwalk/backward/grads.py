"""The `.grad` of tensors during a backward pass that gradwalk runs, and travelling in its time."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import torch

from ..graph.capture import Capture
from ..graph.nodes import node_class
from .inner_leaves import inner_leaves
from .statistics import has_norm
from .timeline import Timeline, is_small


class Grads:
    """Every ``.grad`` that a backward pass may change.

    Attributes:
        timelines: One per leaf, and per intermediate tensor that retains its gradient.
        inner: One per leaf that is no node of the graph, but that a node may accumulate into by a
            backward pass of its own (reentrant checkpoint).
        fixed: A sentence why travelling leaves every ``.grad`` alone; None as long as it moves
            them.
    """

    def __init__(self, captured: Capture, inputs: Iterable[torch.Tensor] = ()) -> None:
        """Remember what every ``.grad`` is before the pass.

        Args:
            captured: The graph and its tensors.
            inputs: Tensors that the pass was asked to accumulate into; intermediate ones among
                them retain their gradient for it.
        """
        asked = {id(tensor) for tensor in inputs}
        self.fixed: str | None = None
        called = functools.partial(_called, captured)
        leaves = list(captured.leaves())
        self.timelines = [Timeline(i, called, _always(leaf)) for i, leaf in leaves]
        for (i, _), reference in captured.tensors.items():
            tensor = reference()
            if tensor is not None and (tensor.retains_grad or id(tensor) in asked):
                self.timelines.append(Timeline(i, called, weakref.ref(tensor)))
        self.inner: list[Timeline] = []
        self._run_within: dict[int, list[Timeline]] = {}
        self._add_inner(captured)
        self._by_node: dict[int, list[Timeline]] = {}
        for timeline in self.timelines:
            self._by_node.setdefault(timeline.node, []).append(timeline)
        # torch may have given one memory to the .grad of several leaves, in the pass before (the
        # backward of stack().sum(0) does): then a step of one changes them all.
        self._sharing: dict[tuple[int, ...], list[Timeline]] = {}
        for timeline in self.timelines:
            if (memory := _memory(timeline.moments[0].grad)) is not None:
                self._sharing.setdefault(memory, []).append(timeline)
        self._moved = [*self.timelines, *self.inner]
        self._leaves = {i for i, _ in leaves}

    @property
    def nodes(self) -> frozenset[int]:
        """The nodes whose steps may change a ``.grad``."""
        return frozenset([*self._by_node, *self._run_within])

    def _add_inner(self, captured: Capture) -> None:
        """Find the leaves that nodes may accumulate into by a backward pass of their own."""
        functions = {cls for cls in set(map(type, captured.nodes)) if node_class(cls).is_function}
        if not functions:
            return
        known = {id(timeline.tensor()): timeline for timeline in self.timelines}
        called = functools.partial(_called_inner, captured)
        for i, node in enumerate(captured.nodes):
            for leaf in inner_leaves(node) if type(node) in functions else ():
                if id(leaf) not in known:
                    self.inner.append(Timeline(i, called, _always(leaf)))
                    known[id(leaf)] = self.inner[-1]
                self._run_within.setdefault(i, []).append(known[id(leaf)])

    def of(self, node: int) -> Sequence[Timeline]:
        """The timelines of the tensors that a node accumulates into, or makes."""
        return self._by_node.get(node, ())

    def touched(self) -> list[Timeline]:
        """Those of which something else has changed the ``.grad`` since we left it."""
        return [each for each in self._moved if not each.is_untouched(is_small(each.tensor()))]

    def lend(self, tensors: Iterable[torch.Tensor]) -> list[Timeline]:
        """Leave the ``.grad`` of some tensors to another pass: travelling moves it no more.

        What it was stays in the timelines.

        Args:
            tensors: The tensors; those that this pass does not know are passed over.

        Returns:
            The timelines of those that it does know.
        """
        given = {id(tensor) for tensor in tensors}
        lent = [timeline for timeline in self._moved if id(timeline.tensor()) in given]
        self._moved = [timeline for timeline in self._moved if timeline not in lent]
        return lent

    def note(self, node: int, step: int, arrived: torch.Tensor | None = None) -> None:
        """A node's step is over: remember the ``.grad`` it may have changed.

        Args:
            node: The node.
            step: The number of its step.
            arrived: What came in.
        """
        for timeline in self._by_node.get(node, ()):
            timeline.note(step, arrived if node in self._leaves else None)
            memory = _memory(timeline.moments[-1].grad) if self._sharing else None
            for other in self._sharing.get(memory, ()) if memory is not None else ():
                if other is not timeline:
                    other.note(step)
        for timeline in self._run_within.get(node, ()) if self._run_within else ():
            if not timeline.is_untouched(closely=False):
                timeline.note(step)

    def finish(self, steps: int) -> None:
        """The pass is over: remember also what hooks of the user's changed after a step."""
        for timeline in [*self.timelines, *self.inner]:
            if not timeline.is_untouched(closely=False):
                timeline.note(steps)
            if self.fixed is None:
                self.fixed = timeline.why_taken() or timeline.why_stuck()

    def put_back(self) -> str | None:
        """Make every ``.grad`` what it was before the pass, which failed.

        Returns:
            None; where torch does not let us, a sentence without its full stop. ``fixed`` is then
            the same.
        """
        failed: str | None = None
        for timeline in self._moved:
            if timeline.at(0) != timeline.now and (error := timeline.try_to_go(0)) is not None:
                failed = self.fixed = f"{timeline.name}.grad could not be put back ({error})"
        return failed

    def changed_by(self, node: int) -> Timeline | None:
        """The timeline that a node's step added a moment to."""
        for timeline in self._by_node.get(node, ()):
            if len(timeline.moments) > 1:
                return timeline
        return None

    def go(self, step: int) -> bool:
        """Make every ``.grad`` what it was after ``step`` steps.

        Returns:
            Whether it did. It does nothing, now and ever after, when something else has changed
            one of them: ``fixed`` then says so.
        """
        moves = [(timeline, timeline.at(step)) for timeline in self._moved]
        for timeline, index in moves:
            if self.fixed is None and not timeline.is_untouched(closely=index != timeline.now):
                self.fixed = (
                    f"{timeline.name}.grad was changed by something else since this backward pass "
                    "ran"
                )
        if self.fixed is not None:
            return False
        stood = [(timeline, timeline.now) for timeline, _ in moves]
        try:
            _move(moves)
        except BaseException as error:
            with suppress(Exception):
                _move(stood)
            if not isinstance(error, Exception):
                raise
            self.fixed = f"moving .grad failed ({type(error).__name__}: {error})"
            return False
        return True


def _move(moves: Iterable[tuple[Timeline, int]]) -> None:
    for timeline, index in moves:
        if index != timeline.now:
            timeline.go(index)


def _memory(grad: torch.Tensor | None) -> tuple[int, ...] | None:
    if grad is None or not has_norm(grad) or not grad.numel():
        return None
    return grad.data_ptr(), grad.numel()


def _always(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: tensor


def _called(captured: Capture, node: int) -> str:
    name: str | None = captured.graph.nodes[node]["name"]
    return name or f"the tensor of node {node}"


def _called_inner(captured: Capture, node: int) -> str:
    return f"a leaf inside {captured.graph.nodes[node]['op']} (node {node})"
