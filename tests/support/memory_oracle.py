"""The memory of a real step, counted by torch's own tracker."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import torch
from planned_steps import Step
from torch.distributed._tools.mem_tracker import MemTracker

from gradwalk.features.plan.run_step import loss_of, named_tensors


class Tracker(MemTracker):
    """torch's memory tracker, with its total after every operation."""

    def __init__(self) -> None:
        super().__init__()
        self.curve: list[int] = []

    def _track_module_params_and_buffers(self, module, install_grad_hooks=True):
        # Its hooks only say which storage is a gradient, and fail for frozen parameters.
        return super()._track_module_params_and_buffers(module, install_grad_hooks=False)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.curve.append(sum(each["Total"] for each in self._curr_mem_snap.values()))
        return result


def tracked(step: Step) -> tuple[int, list[int]]:
    """The peak and the curve of a real step, by torch."""
    tracker = Tracker()
    optimizer = stepped(step)
    inputs = [tensor for _, tensor in named_tensors(step.batch)]
    tracker.track_external(step.model, *inputs, *([optimizer] if optimizer else []))
    with tracker:
        loss = loss_of(step.model, step.batch, step.loss)
        loss.backward()
        if optimizer:
            optimizer.step()
    (peak,) = (each["Total"] for each in tracker.get_tracker_snapshot("peak").values())
    return peak, changes(tracker.curve)


def stepped(step: Step) -> torch.optim.Optimizer | None:
    """An optimizer that has its state, and a model without gradients."""
    if step.optimizer is None:
        return None
    optimizer = step.optimizer(step.model.parameters())
    loss_of(step.model, step.batch, step.loss).backward()
    optimizer.step()
    optimizer.zero_grad()
    return optimizer


def changes(live: Iterable[int]) -> list[int]:
    """The curve without repeats: fake tensors make some views by more calls than real ones."""
    return [key for key, _ in groupby(live)]
