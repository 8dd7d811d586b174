"""Note some numbers of parameters before and after the steps of optimizers under `watch`.

A few numbers of each parameter show whether a step changed it. The first steps of an optimizer are
noted, and then fewer and fewer: the 4th, the 8th, ... Nothing waits for a device.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import weakref
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_norm_
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ..torch_api.modes import unseen
from .both_runs import few_numbers
from .operands import tensors_of
from .source_line import SourceLine, here, line_at

_OPTIMIZER = register_optimizer_step_post_hook.__code__.co_filename
_ALWAYS = 3  # steps
_CLIPPING = inspect.unwrap(clip_grad_norm_).__code__.co_filename
_SCALER = GradScaler.scale.__code__.co_filename
_SCALES = ("scale", "apply_scale")
NOTED = frozenset(
    {
        # What clipping calls first; without any gradient it makes the tensor 0.
        *("tensor", "_foreach_norm", "_foreach_clamp_min_"),
        *("to", "_amp_foreach_non_finite_check_and_unscale_"),
    }
)
"""The functions whose calls may be noted."""


@dataclass
class Moved:
    """Some numbers of one parameter around a step."""

    parameter: weakref.ref[torch.Tensor]
    before: torch.Tensor
    grad: torch.Tensor | None  # of the same numbers; None without a gradient
    rate: Any  # the learning rate; None if its group has none
    after: torch.Tensor | None = None


@dataclass
class Clip:
    """A call that clips gradients."""

    where: SourceLine | None
    after: int  # passes since the step before
    grads: list[weakref.ref[torch.Tensor]]
    is_of_scaled: bool  # whether a GradScaler had scaled them


@dataclass
class Passes:
    """The numbers of targets that the losses of backward passes average over."""

    counts: list[int] = field(default_factory=list)  # one for each pass
    leaves: set[int] = field(default_factory=set)  # the ``id`` of the leaves of the passes
    step: SourceLine | None = None  # the line of the step that ended them
    clips: list[Clip] = field(default_factory=list)
    passes: int = 0  # all of them
    is_scaled: bool = False  # whether a GradScaler scaled a loss
    is_unscaled: bool = False


@dataclass
class Step:
    """The latest step of an optimizer that was noted."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    where: SourceLine | None
    moved: dict[int, Moved] = field(default_factory=dict)  # by the ``id`` of the parameter
    before: Passes = field(default_factory=Passes)  # since the step before
    is_done: bool = False


_steps: weakref.WeakKeyDictionary[torch.optim.Optimizer, Step] = weakref.WeakKeyDictionary()
_counts: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()


_since_step, _of_step = Passes(), Passes()
_MOST_PASSES = 64


def note_counts(targets: int, leaves: Iterable[int]) -> None:
    """Note a backward pass whose loss averages over a number of targets."""
    if len(_since_step.counts) < _MOST_PASSES:
        _since_step.counts.append(targets)
        _since_step.leaves.update(leaves)


def note_pass() -> None:
    """Note that a backward pass begins."""
    _since_step.passes += 1


def note_call(name: str, frame: FrameType, arguments: tuple[Any, ...]) -> None:
    """Note a call, one of `NOTED`, if it is one of clipping or of a GradScaler."""
    code, seen = frame.f_code, _since_step
    if code.co_filename == _SCALER:
        seen.is_scaled |= name == "to" and code.co_name in _SCALES
        seen.is_unscaled |= name.endswith("unscale_")
    elif code.co_filename == _CLIPPING and name != "to" and len(seen.clips) < _MOST_PASSES:
        grads = [*map(weakref.ref, tensors_of(arguments[0]))]
        is_early = seen.is_scaled and not seen.is_unscaled
        seen.clips.append(Clip(line_at(frame), seen.passes, grads, is_early))


def noted_counts(leaves: Collection[int]) -> tuple[SourceLine | None, list[int]]:
    """Return the line of the latest step, and the numbers of targets of the passes before it."""
    for passes in (_since_step, _of_step):
        if len(passes.counts) > 1 and not passes.leaves.isdisjoint(leaves):
            return passes.step, list(passes.counts)
    return None, []


def _end_passes(where: SourceLine | None) -> None:
    global _since_step, _of_step
    if _since_step.counts or _since_step.passes or _since_step.clips:
        _since_step.step = where
        _since_step, _of_step = Passes(), _since_step


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
            before = _since_step
            _end_passes(here())
            count = _counts[optimizer] = _counts.get(optimizer, 0) + 1
            if count <= _ALWAYS or not count & (count - 1):
                step = _steps[optimizer] = _begun(optimizer)
                step.before = before

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
                moved.after = None if parameter is None else few_numbers(parameter)


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
            before = few_numbers(parameter)
            if before is not None:
                grad = None if parameter.grad is None else few_numbers(parameter.grad)
                if grad is not None or parameter.grad is None:
                    moved = Moved(weakref.ref(parameter), before, grad, group.get("lr"))
                    step.moved[id(parameter)] = moved
    return step
