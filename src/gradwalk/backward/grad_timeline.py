"""The ``.grad`` of one tensor through a backward pass, and setting it back to an earlier step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

import torch

from ..torch_api.reading import has_data, why_unreadable
from ..torch_api.tensors import has_hooks_on_grad, set_version, version_of
from .kept_gradients import LARGEST_COPY
from .statistics import norm_of

_FEW = 16


class Moment(NamedTuple):
    """A tensor's ``.grad`` from some step on.

    Attributes:
        step: The number of completed steps.
        grad: The ``.grad`` object itself.
        version: How often it had been changed in place.
        values: A copy of its values. None for a large ``.grad`` that the pass created, which no
            other moment can change.
        norm: Its norm, if ``values`` is None.
    """

    step: int
    grad: torch.Tensor | None
    version: int
    values: torch.Tensor | None
    norm: torch.Tensor | None = None


class GradTimeline:
    """The ``.grad`` of one tensor through a backward pass.

    Attributes:
        node: The node that accumulates into the tensor, or the node that made it.
        name: The name of the tensor.
        tensor: Returns the tensor, or None once it is gone.
        moments: The states of ``.grad``, in step order; the first is from before the pass.
        now: The index of the tensor's current moment.
    """

    __slots__ = ("_called", "moments", "node", "now", "tensor")

    def __init__(
        self, node: int, called: Callable[[int], str], tensor: Callable[[], torch.Tensor | None]
    ) -> None:
        """Record ``.grad`` before the pass.

        Args:
            node: The node that accumulates into the tensor, or that made it.
            called: Returns the name of a node's tensor.
            tensor: Returns the tensor, or None once it is gone.
        """
        self.node = node
        self._called = called
        self.tensor = tensor
        found = tensor()
        self.moments = [_EMPTY if found is None else _moment(0, found)]
        self.now = 0

    @property
    def name(self) -> str:
        """The name of the tensor."""
        return self._called(self.node)

    def note(self, step: int, arrived: torch.Tensor | None = None) -> None:
        """Add the current ``.grad`` as a moment.

        Args:
            step: The number of completed steps.
            arrived: The incoming gradient of the leaf, in its own step. An empty ``.grad`` now
                holds it or a copy of it, unless a hook has changed it.
        """
        tensor = self.tensor()
        if tensor is None:
            return
        # In the leaf's own step: nothing else in this pass adds to an empty `.grad`.
        if len(self.moments) > 1 or self.moments[0].grad is not None:
            arrived = None
        self.moments.append(_moment(step, tensor, arrived))
        self.now = len(self.moments) - 1

    def at(self, step: int) -> int:
        """Return the index of the moment after ``step`` steps."""
        return bisect_right([moment.step for moment in self.moments], step) - 1

    def is_untouched(self, closely: bool) -> bool:
        """Return whether ``.grad`` is as left here; ``closely`` compares every value."""
        tensor, expected = self.tensor(), self.moments[self.now]
        if tensor is None:
            return True
        grad = _grad(tensor)
        if grad is not expected.grad:
            return False
        if grad is None:
            return True
        # Two leaves that cat() joined share one memory, and so one version counter.
        changed = version_of(grad) != expected.version
        return _is_as(grad, expected) if closely or changed else True

    def go(self, index: int) -> None:
        """Set ``.grad`` to a moment: the same object with the same bits."""
        tensor, moment = self.tensor(), self.moments[index]
        if tensor is not None:
            grad = moment.grad
            shared = sum(other.grad is grad for other in self.moments) > 1  # added to in place
            if grad is not None and shared and (moment.values is not None or not has_data(grad)):
                if moment.values is not None:
                    with torch.no_grad(), torch.inference_mode(grad.is_inference()):
                        grad.copy_(moment.values)
                # Reset the version, too: a node that saved this tensor finds it unchanged.
                set_version(grad, moment.version)
            tensor.grad = grad
        self.now = index

    def try_go(self, index: int) -> Exception | None:
        """Call `go`; return torch's error, if any."""
        try:
            self.go(index)
        except (RuntimeError, TypeError) as error:
            return error
        return None

    def explain_removed(self) -> str | None:
        """Say that ``.grad`` was None after a pass that had set it; None otherwise."""
        if self.moments[-1].grad is None and any(
            moment.grad is not None for moment in self.moments
        ):
            return f"{self.name}.grad was None when this backward pass ended, though it had set it"
        return None

    def explain_stuck(self) -> str | None:
        """Say why torch forbids setting the present ``.grad``; None if it does not."""
        tensor = self.tensor()
        grad = None if tensor is None else _grad(tensor)
        if tensor is None or grad is None:
            return None
        try:
            tensor.grad = grad  # the same object: this changes nothing
        except (RuntimeError, TypeError):
            kind = f"{_kind(tensor)} tensor"
            if grad.layout == tensor.layout:
                return f"{self.name} is a {kind}, whose .grad torch cannot set"
            return f"{self.name} is a {kind} with a {_kind(grad)} .grad, which torch cannot set"
        return None


def _grad(tensor: torch.Tensor) -> torch.Tensor | None:
    # torch warns when reading the .grad of a tensor that never keeps one.
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def _kind(tensor: torch.Tensor) -> str:
    """Return a tensor's layout as a word."""
    if tensor.is_nested:
        return "nested"
    if tensor.layout is torch.strided:
        return "dense"
    return str(tensor.layout).removeprefix("torch.").replace("_", " ")


_EMPTY = Moment(0, None, 0, None)


def _moment(step: int, tensor: torch.Tensor, last: torch.Tensor | None = None) -> Moment:
    """Return a tensor's ``.grad`` as a moment.

    Args:
        step: The number of completed steps.
        tensor: The tensor.
        last: The gradient that arrived in its empty ``.grad``, if nothing else will be added.
    """
    grad = _grad(tensor) if last is None else tensor.grad  # it is a leaf
    if grad is None:
        return Moment(step, None, 0, None) if step else _EMPTY
    version = version_of(grad)
    if (
        last is not None
        and last.layout is grad.layout is torch.strided
        and has_data(grad)
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
    """Return whether a ``.grad`` holds the moment's values, even if changed through ``.data``."""
    with torch.no_grad():
        if moment.values is not None:
            return same_values(grad, moment.values)
        norm = norm_of(grad)
        if norm is None or moment.norm is None:
            return norm is moment.norm
        return same_values(norm, moment.norm)


def is_small(tensor: torch.Tensor | None) -> bool:
    """Return whether all numbers of a tensor can be compared without waiting for a device."""
    if tensor is None or not has_data(tensor):
        return False
    return tensor.device.type == "cpu" and tensor.numel() <= _FEW


def same_values(now: torch.Tensor, before: torch.Tensor) -> bool:
    """Return whether a tensor is unchanged; True if the values cannot be compared."""
    if not has_data(now):
        return True
    if why_unreadable(now) is not None or why_unreadable(before) is not None:  # freed meanwhile
        return False
    try:
        # torch.equal is much faster, but NaN differs from NaN, and nested tensors fail.
        if not now.is_nested and torch.equal(now, before):
            return True
        return torch.allclose(now, before, rtol=0, atol=0, equal_nan=True)
    except RuntimeError:  # sparse and other layouts
        return True
