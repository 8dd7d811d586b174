"""The `.grad` of tensors during a backward pass that gradwalk runs, and travelling in its time."""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch

from .capture import Capture
from .kept import Kept
from .nodes import leaf_tensor, set_version


@dataclass(frozen=True)
class Moment:
    """What a tensor's ``.grad`` was from some step on.

    Attributes:
        step: After how many steps it was so.
        grad: The ``.grad`` itself, the very object.
        version: How often it had been changed in place.
        values: A copy of what it held.
    """

    step: int
    grad: torch.Tensor | None
    version: int
    values: torch.Tensor | None


@dataclass
class Timeline:
    """The ``.grad`` of one tensor through a backward pass.

    Attributes:
        node: The node that accumulates into the tensor or, of an intermediate one, that made it.
        name: What to call the tensor.
        tensor: Gives the tensor, or None once it is gone.
        moments: What its ``.grad`` was, in the order of steps; the first is from before the pass.
        now: Which of the moments the tensor is in.
    """

    node: int
    name: str
    tensor: Callable[[], torch.Tensor | None]
    moments: list[Moment] = field(default_factory=list)
    now: int = 0

    def note(self, step: int, arrived: Kept | None = None) -> None:
        """Add a moment: what ``.grad`` is now.

        Args:
            step: After how many steps.
            arrived: What arrived at the node, when that is now in ``.grad`` unless a hook has
                changed it: its copy then serves here too.
        """
        tensor = self.tensor()
        if tensor is None:
            return
        copy = None
        if arrived is not None and tensor.is_leaf and self.moments[-1].grad is None:
            hooked = bool(tensor._post_accumulate_grad_hooks)
            copy = None if hooked or arrived.changed else arrived.tensor
        self.moments.append(_moment(step, tensor, copy))
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
        return grad._version == expected.version and (not closely or _equal(grad, expected.values))

    def go(self, index: int) -> None:
        """Make ``.grad`` what it was at a moment, bit for bit and the same object."""
        tensor, moment = self.tensor(), self.moments[index]
        self.now = index
        if tensor is None:
            return
        grad = moment.grad
        if grad is not None and grad._version != moment.version:
            assert moment.values is not None
            with torch.no_grad():
                grad.copy_(moment.values)
            # With its values the version returns too: who saved this tensor finds it unchanged.
            set_version(grad, moment.version)
        tensor.grad = grad


class Grads:
    """Every ``.grad`` that a backward pass may change.

    Attributes:
        timelines: One per leaf, and per intermediate tensor that retains its gradient.
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
        self.timelines: list[Timeline] = []
        for i, node in enumerate(captured.nodes):
            leaf = leaf_tensor(node)
            if leaf is not None:
                self._add(captured, i, _always(leaf))
        for (i, _), reference in captured.tensors.items():
            tensor = reference()
            if tensor is not None and (tensor.retains_grad or id(tensor) in asked):
                self._add(captured, i, weakref.ref(tensor))
        self._by_node: dict[int, list[Timeline]] = {}
        for timeline in self.timelines:
            timeline.note(0)
            if _is_nested(timeline.tensor()):
                self.fixed = f"{timeline.name} is a nested tensor, whose .grad torch cannot set"
            self._by_node.setdefault(timeline.node, []).append(timeline)

    def _add(self, captured: Capture, i: int, tensor: Callable[[], torch.Tensor | None]) -> None:
        name = captured.graph.nodes[i]["name"] or f"the tensor of node {i}"
        self.timelines.append(Timeline(i, name, tensor))

    def note(self, node: int, step: int, arrived: Kept | None = None) -> None:
        """A node's step is over: remember the ``.grad`` it may have changed."""
        for timeline in self._by_node.get(node, ()):
            timeline.note(step, arrived)

    def finish(self, steps: int) -> None:
        """The pass is over: remember also what hooks of the user's changed after a step."""
        for timeline in self.timelines:
            if not timeline.is_untouched(closely=False):
                timeline.note(steps)

    def changed_by(self, node: int) -> Timeline | None:
        """The timeline that a node's step added a moment to."""
        return next((t for t in self._by_node.get(node, ()) if len(t.moments) > 1), None)

    def go(self, step: int) -> bool:
        """Make every ``.grad`` what it was after ``step`` steps.

        Returns:
            Whether it did. It does nothing, now and ever after, when something else has changed
            one of them: ``fixed`` then says so.
        """
        moves = [(timeline, timeline.at(step)) for timeline in self.timelines]
        for timeline, index in moves:
            if self.fixed is None and not timeline.is_untouched(closely=index != timeline.now):
                self.fixed = (
                    f"{timeline.name}.grad was changed by something else since this backward pass "
                    "ran"
                )
        if self.fixed is not None:
            return False
        for timeline, index in moves:
            if index != timeline.now:
                timeline.go(index)
        return True


def _always(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: tensor


def _grad(tensor: torch.Tensor) -> torch.Tensor | None:
    # torch warns when the .grad of a tensor is read that never keeps one.
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def _is_nested(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and tensor.is_nested


def _moment(step: int, tensor: torch.Tensor, copy: torch.Tensor | None = None) -> Moment:
    grad = _grad(tensor)
    if grad is None:
        return Moment(step, None, 0, None)
    return Moment(step, grad, grad._version, grad.detach().clone() if copy is None else copy)


def _equal(grad: torch.Tensor, values: torch.Tensor | None) -> bool:
    try:
        return values is not None and torch.allclose(grad, values, rtol=0, atol=0, equal_nan=True)
    except (RuntimeError, NotImplementedError):
        return True  # sparse and other layouts cannot be compared; their version was
