"""ReLUs whose units are zero for every example, by saved tensors or by gradients."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..backward.recorded_run import RecordedRun
from ..graph.capture import Capture
from ..torch_api.reading import distinct, is_plain, overlaps_too_much
from ..torch_api.saved_tensors import read_saved

_OPS = ("ReluBackward0", "ThresholdBackward0")


def dead_units(captured: Capture, run: RecordedRun | None) -> Iterator[tuple[int, int, int]]:
    """Count the units of each ReLU that are zero for every example.

    A unit is a channel, the second dimension, of a tensor with more than three dimensions; else an
    entry of the last one. The saved tensor is read; without it, the incoming and outgoing
    gradients.

    Args:
        captured: The graph.
        run: A backward pass, if there was one.

    Yields:
        (node, dead units, units), of the ReLUs of which anything is known.
    """
    for node, op in captured.graph.nodes(data="op"):
        if op not in _OPS:
            continue
        zero = _by_result(captured, node)
        if zero is None and run is not None:
            zero = _by_gradient(run, node)
        if zero is not None and zero.numel():
            yield node, int(zero.sum()), zero.numel()


def _by_result(captured: Capture, node: int) -> torch.Tensor | None:
    for saved in read_saved(captured.nodes[node]):
        value = saved.value
        if saved.name in ("result", "self") and isinstance(value, torch.Tensor):
            ends = _ends(value)
            return None if ends is None else ends[1] <= 0
    return None


def _by_gradient(run: RecordedRun, node: int) -> torch.Tensor | None:
    step = run.steps.get(node)
    if step is None or not step.grad_inputs or not step.grad_outputs:
        return None
    came, went = step.grad_outputs[0], step.grad_inputs[0]
    if came is None or went is None or came.tensor is None or went.tensor is None:
        return None
    arriving, passed = _ends(came.tensor), _ends(went.tensor)
    if arriving is None or passed is None:
        return None
    arrived = ~_are_zero(*arriving)
    return (_are_zero(*passed) & arrived)[arrived]


def _are_zero(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    return (low == 0) & (high == 0)


def _ends(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The lowest and the highest value of each unit; None where they cannot be read."""
    if not is_plain(tensor) or not tensor.numel():
        return None
    with torch.no_grad():
        once, _ = distinct(tensor.detach())
        if overlaps_too_much(once):
            return None
        if once.dim() == 0:
            return once.reshape(1), once.reshape(1)
        unit = 1 if once.dim() > 3 else once.dim() - 1
        units = tensor.shape[unit]
        others = [dim for dim in range(once.dim()) if dim != unit]
        low, high = (once.amin(others), once.amax(others)) if others else (once, once)
        return low.expand(units), high.expand(units)
