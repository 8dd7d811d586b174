"""ReLUs whose units are zero for every example, by what they saved or by what they passed on."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..backward.observe import Run
from ..graph.capture import Capture
from ..graph.saved import read_saved

_OPS = ("ReluBackward0", "ThresholdBackward0")


def dead_units(captured: Capture, run: Run | None) -> Iterator[tuple[int, int, int]]:
    """How many units of each ReLU are zero for every example.

    A unit is a channel, the second dimension, of a tensor with more than three dimensions; else an
    entry of the last one. What a ReLU saved tells best; when that is gone, the gradient that it
    passed on does, where one had come to it.

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
            if not _is_readable(value):
                return None
            return _per_unit(value.detach() <= 0)
    return None


def _by_gradient(run: Run, node: int) -> torch.Tensor | None:
    step = run.steps.get(node)
    if step is None or not step.grad_inputs or not step.grad_outputs:
        return None
    came, went = step.grad_outputs[0], step.grad_inputs[0]
    if came is None or went is None or came.tensor is None or went.tensor is None:
        return None
    if not (_is_readable(came.tensor) and _is_readable(went.tensor)):
        return None
    stopped = _per_unit(went.tensor == 0)
    arrived = ~_per_unit(came.tensor == 0)
    return (stopped & arrived)[arrived]


def _is_readable(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested and tensor.device.type != "meta"


def _per_unit(is_zero: torch.Tensor) -> torch.Tensor:
    """Whether each unit is zero for every example."""
    if is_zero.dim() == 0:
        return is_zero.reshape(1)
    unit = 1 if is_zero.dim() > 3 else is_zero.dim() - 1
    with torch.no_grad():
        return is_zero.movedim(unit, 0).flatten(1).all(1) if is_zero.dim() > 1 else is_zero
