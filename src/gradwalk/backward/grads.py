"""The `.grad` of tensors during a backward pass that gradwalk runs, and travelling in its time."""

from __future__ import annotations

import functools
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import torch

from ..graph.capture import Capture
from ..graph.nodes import node_class
from ..graph.reading import why_unreadable
from ..graph.tensors import has_hooks_on_grad, set_version, version_of
from .inner_leaves import inner_leaves
from .kept import LARGEST_COPY
from .statistics import has_norm, norm_of

_FEW = 16


class Moment(NamedTuple):
    """What a tensor's ``.grad`` was from some step on.

    Attributes:
        step: After how many steps it was so.
        grad: The ``.grad`` itself, the very object.
        version: How often it had been changed in place.
        values: A copy of what it held. None for a large ``.grad`` that was not there before the
            pass, so that no other moment can change it.
        norm: What its norm was, where there is no copy to compare with.
    """

    step: int
    grad: torch.Tensor | None
    version: int
    values: torch.Tensor | None
    norm: torch.Tensor | None = None


class Timeline:
    """The ``.grad`` of one tensor through a backward pass.

    Attributes:
        node: The node that accumulates into the tensor or, of an intermediate one, that made it.
        name: What to call the tensor.
        tensor: Gives the tensor, or None once it is gone.
        moments: What its ``.grad`` was, in the order of steps; the first is from before the pass.
        now: Which of the moments the tensor is in.
    """

    __slots__ = ("_called", "moments", "node", "now", "tensor")

    def __init__(
        self, node: int, called: Callable[[int], str], tensor: Callable[[], torch.Tensor | None]
    ) -> None:
        """Remember what ``.grad`` is before the pass.

        Args:
            node: The node that accumulates into the tensor, or that made it.
            called: What to call the tensor of a node.
            tensor: Gives the tensor, or None once it is gone.
        """
        self.node = node
        self._called = called
        self.tensor = tensor
        found = tensor()
        self.moments = [_EMPTY if found is None else _moment(0, found)]
        self.now = 0

    @property
    def name(self) -> str:
        """What to call the tensor."""
        return self._called(self.node)

    def note(self, step: int, arrived: torch.Tensor | None = None) -> None:
        """Add a moment: what ``.grad`` is now.

        Args:
            step: After how many steps.
            arrived: What arrived at the leaf, in its own step. When ``.grad`` was empty that is now
                in it, unless a hook has changed it: then ``.grad`` itself, or a copy that torch
                made of what arrived.
        """
        tensor = self.tensor()
        if tensor is None:
            return
        # The leaf's own step: nothing else in this pass adds to what is now in an empty `.grad`.
        if len(self.moments) > 1 or self.moments[0].grad is not None:
            arrived = None
        self.moments.append(_moment(step, tensor, arrived))
        self.now = len(self.moments) - 1

    def at(self, step: int) -> int:
        """Which moment is the one after ``step`` steps."""
        return bisect_right([moment.step for moment in self.moments], step) - 1

    def is_untouched(self, closely: bool) -> bool:
        """Whether ``.grad`` is as this timeline left it; ``closely`` compares every value."""
        tensor, expected = self.tensor(), self.moments[self.now]
        if tensor is None:
            return True
        grad = _grad(tensor)
        if grad is not expected.grad:
            return False
        if grad is None:
            return True
        # Two leaves that were joined by cat() share one memory, and so one count of changes.
        changed = version_of(grad) != expected.version
        return _is_as(grad, expected) if closely or changed else True

    def go(self, index: int) -> None:
        """Make ``.grad`` what it was at a moment, bit for bit and the same object."""
        tensor, moment = self.tensor(), self.moments[index]
        if tensor is not None:
            grad = moment.grad
            shared = sum(other.grad is grad for other in self.moments) > 1  # added to in place
            if grad is not None and shared and moment.values is not None:
                with torch.no_grad(), torch.inference_mode(grad.is_inference()):
                    grad.copy_(moment.values)
                # With its values the version returns too: who saved this tensor finds it unchanged.
                set_version(grad, moment.version)
            tensor.grad = grad
        self.now = index

    def try_to_go(self, index: int) -> Exception | None:
        """`go`; why torch refused, when it did."""
        try:
            self.go(index)
        except (RuntimeError, TypeError) as error:
            return error
        return None

    def why_taken(self) -> str | None:
        """That the pass left no ``.grad``, where it had added to it: somebody has moved it on."""
        if self.moments[-1].grad is None and any(
            moment.grad is not None for moment in self.moments
        ):
            return f"{self.name}.grad was taken away when the backward pass ended, as FSDP2 does"
        return None

    def why_stuck(self) -> str | None:
        """Why torch would not let anyone set the ``.grad`` that is there now; None when it does."""
        tensor = self.tensor()
        grad = None if tensor is None else _grad(tensor)
        if tensor is None or grad is None:
            return None
        try:
            tensor.grad = grad  # what it is already: this changes nothing
        except (RuntimeError, TypeError):
            kind = f"{_kind(tensor)} tensor"
            if grad.layout == tensor.layout:
                return f"{self.name} is a {kind}, whose .grad torch cannot set"
            return f"{self.name} is a {kind} with a {_kind(grad)} .grad, which torch cannot set"
        return None


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
        return next((t for t in self._by_node.get(node, ()) if len(t.moments) > 1), None)

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


def is_small(tensor: torch.Tensor | None) -> bool:
    """Whether every number of it can be looked at, without waiting for a device."""
    return tensor is not None and tensor.device.type == "cpu" and tensor.numel() <= _FEW


def _always(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: tensor


def _called(captured: Capture, node: int) -> str:
    name: str | None = captured.graph.nodes[node]["name"]
    return name or f"the tensor of node {node}"


def _called_inner(captured: Capture, node: int) -> str:
    return f"a leaf inside {captured.graph.nodes[node]['op']} (node {node})"


def _grad(tensor: torch.Tensor) -> torch.Tensor | None:
    # torch warns when the .grad of a tensor is read that never keeps one.
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def _kind(tensor: torch.Tensor) -> str:
    """A tensor's layout in a word."""
    if tensor.is_nested:
        return "nested"
    if tensor.layout is torch.strided:
        return "dense"
    return str(tensor.layout).removeprefix("torch.").replace("_", " ")


_EMPTY = Moment(0, None, 0, None)


def _moment(step: int, tensor: torch.Tensor, last: torch.Tensor | None = None) -> Moment:
    """What a tensor's ``.grad`` is now.

    Args:
        step: After how many steps.
        tensor: The tensor.
        last: What has arrived in its empty ``.grad``, to which nothing else in this pass adds.
    """
    grad = _grad(tensor) if last is None else tensor.grad  # it is a leaf
    if grad is None:
        return Moment(step, None, 0, None) if step else _EMPTY
    version = version_of(grad)
    if (
        last is not None
        and last.layout is grad.layout is torch.strided
        and last.data_ptr() != grad.data_ptr()
        and last.shape == grad.shape
        and not has_hooks_on_grad(tensor)
    ):
        return Moment(step, grad, version, last)  # torch has copied it
    values = grad.detach()
    if why_unreadable(values) is not None:
        return Moment(step, grad, version, None)
    if last is not None and values.numel() * values.element_size() > LARGEST_COPY:
        norm = norm_of(values)
        if norm is not None:
            return Moment(step, grad, version, None, norm)
    return Moment(step, grad, version, values.clone())


def _is_as(grad: torch.Tensor, moment: Moment) -> bool:
    """Whether a ``.grad`` still holds what it did, also when it was changed behind torch's back."""
    with torch.no_grad():
        if moment.values is None:
            return _equal(norm_of(grad), moment.norm)
        return _equal(grad, moment.values)


def _equal(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    if why_unreadable(a) is not None:  # its memory was taken away since
        return False
    try:
        return torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
    except (RuntimeError, NotImplementedError):
        return True  # sparse and other layouts cannot be compared; their version was
