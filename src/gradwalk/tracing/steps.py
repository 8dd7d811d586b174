"""Note some numbers of parameters before and after the steps of optimizers under `watch`.

A few numbers of each parameter show whether a step changed it. The first steps of an optimizer are
noted, and then fewer and fewer: the 4th, the 8th, ... Nothing waits for a device.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ..torch_api.modes import unseen
from ..torch_api.reading import is_plain
from .source_line import SourceLine, here

_OPTIMIZER = register_optimizer_step_post_hook.__code__.co_filename
_SAMPLED = 64  # numbers of a parameter
_ALWAYS = 3  # steps


@dataclass
class Moved:
    """Some numbers of one parameter around a step."""

    parameter: weakref.ref[torch.Tensor]
    before: torch.Tensor
    grad: torch.Tensor | None  # of the same numbers; None without a gradient
    rate: Any  # the learning rate; None if its group has none
    after: torch.Tensor | None = None


@dataclass
class Step:
    """The latest step of an optimizer that was noted."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    where: SourceLine | None
    moved: dict[int, Moved] = field(default_factory=dict)  # by the ``id`` of the parameter
    is_done: bool = False


_steps: weakref.WeakKeyDictionary[torch.optim.Optimizer, Step] = weakref.WeakKeyDictionary()
_counts: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()


@dataclass
class _Passes:
    """The numbers of targets that the losses of backward passes average over."""

    counts: list[int] = field(default_factory=list)  # one for each pass
    leaves: set[int] = field(default_factory=set)  # the ``id`` of the leaves of the passes
    step: SourceLine | None = None  # the line of the step that ended them


_since_step, _of_step = _Passes(), _Passes()
_MOST_PASSES = 64


def note_counts(targets: int, leaves: Iterable[int]) -> None:
    """Note a backward pass whose loss averages over a number of targets."""
    if len(_since_step.counts) < _MOST_PASSES:
        _since_step.counts.append(targets)
        _since_step.leaves.update(leaves)


def noted_counts(leaves: Collection[int]) -> tuple[SourceLine | None, list[int]]:
    """Return the line of the latest step, and the numbers of targets of the passes before it."""
    for passes in (_since_step, _of_step):
        if len(passes.counts) > 1 and not passes.leaves.isdisjoint(leaves):
            return passes.step, list(passes.counts)
    return None, []


def _end_passes(where: SourceLine | None) -> None:
    global _since_step, _of_step
    if _since_step.counts:
        _since_step.step = where
        _since_step, _of_step = _Passes(), _since_step


def noted_steps() -> Iterator[tuple[torch.optim.Optimizer, Step]]:
    """Yield each optimizer that stepped under `watch`, with the latest of its noted steps."""
    for optimizer, step in list(_steps.items()):
        if step.is_done:
            yield optimizer, step


class StepHooks:
    """Hooks on the steps of every optimizer, which note those in a watched thread."""

    def __init__(self, is_watched: Any) -> None:
        """``is_watched``: says whether this thread is watched."""
        self._is_watched = is_watched
        self._handles: list[Any] = []

    def switch_on(self) -> None:
        """Let torch call the hooks, unless it is in the middle of a step."""
        if not self._handles and not _is_in_step():
            self._handles = [
                register_optimizer_step_pre_hook(self._before),
                register_optimizer_step_post_hook(self._after),
            ]

    def switch_off(self) -> None:
        """Remove the hooks. A block that ends within a step leaves them until another ends."""
        if not _is_in_step():
            for handle in self._handles:
                handle.remove()
            self._handles = []

    def _before(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if torch.compiler.is_compiling() or not self._is_watched():
            return
        with contextlib.suppress(Exception), unseen(), torch.no_grad():  # the step runs in any case
            _end_passes(here())
            count = _counts[optimizer] = _counts.get(optimizer, 0) + 1
            if count <= _ALWAYS or not count & (count - 1):
                _steps[optimizer] = _begun(optimizer)

    def _after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if torch.compiler.is_compiling() or not self._is_watched():
            return
        step = _steps.get(optimizer)
        if step is None or step.is_done:
            return
        with contextlib.suppress(Exception), unseen(), torch.no_grad():
            step.is_done = True
            for moved in step.moved.values():
                parameter = moved.parameter()
                moved.after = None if parameter is None else _some(parameter)


def _is_in_step() -> bool:
    """Whether this thread is within `Optimizer.step`, which goes through all hooks in one loop."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "wrapper" and code.co_filename == _OPTIMIZER:
            return True
        frame = frame.f_back
    return False


def _begun(optimizer: torch.optim.Optimizer) -> Step:
    step = Step(weakref.ref(optimizer), here())
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            before = _some(parameter)
            if before is not None:
                grad = None if parameter.grad is None else _some(parameter.grad)
                if grad is not None or parameter.grad is None:
                    moved = Moved(weakref.ref(parameter), before, grad, group.get("lr"))
                    step.moved[id(parameter)] = moved
    return step


def _some(tensor: torch.Tensor) -> torch.Tensor | None:
    """Copy some numbers of a tensor; None where they cannot be read."""
    if not is_plain(tensor) or not tensor.numel() or not tensor.is_contiguous():
        return None
    flat = tensor.detach().view(-1)
    return flat[:: max(1, flat.numel() // _SAMPLED)][:_SAMPLED].clone()
