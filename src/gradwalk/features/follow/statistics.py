"""Cheap numbers of every step: norms of gradients, and of some steps how far they move."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...torch_api.dtensors import own_part
from ...torch_api.modes import grad_mode_kept
from ...torch_api.reading import is_plain
from .norms import UNREAD, Norms, grad_norms
from .program import held_by

_MOST_ROWS = 10_000
_SAMPLED = 4096  # numbers of a parameter
_UPDATES_EVERY = 10
_FLUSHED_EVERY = 50  # steps, on a device that would have to be waited for
_WINDOW, _LEAST = 32, 8
SPIKE = 20.0
"""A spike is a norm so many times the median of the steps before."""


class Row:
    """The numbers of one step of one optimizer."""

    __slots__ = ("losses", "norms", "ratios", "step", "times", "total")

    def __init__(self, step: int, norms: dict[int, float], losses: list[float]) -> None:
        self.step, self.norms, self.losses = step, norms, losses
        self.ratios: dict[int, float] = {}
        self.times: float | None = None  # as large as the median before, if it is a spike
        self.total = math.hypot(*(norm for norm in norms.values() if norm != UNREAD))


class Statistics:
    """The numbers of the steps of one optimizer, by the place of each parameter in it."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.rows: deque[Row] = deque(maxlen=_MOST_ROWS)
        self.names: list[str] = []
        self._waiting: list[tuple[int, list[Norms], list[torch.Tensor]]] = []
        self._totals: deque[float] = deque(maxlen=_WINDOW)
        self.count = sum(1 for _ in held_by(optimizer))

    def take(
        self, step: int, tensors: Sequence[torch.Tensor], losses: list[torch.Tensor]
    ) -> list[Row]:
        """Compute the norms of a step's gradients; return the rows that are known by now."""
        norms = grad_norms(tensors)
        self._waiting.append((step, norms, losses))
        numbers = [*losses, *(values for _, values in norms)]
        is_free = all(each.device.type == "cpu" for each in numbers)
        return self.flush() if is_free or len(self._waiting) >= _FLUSHED_EVERY else []

    def flush(self) -> list[Row]:
        """Read what was computed, and wait for the device if there is one."""
        found = []
        for step, groups, losses in self._waiting:
            norms: dict[int, float] = {}
            for places, values in groups:
                norms.update(zip(places, values.tolist(), strict=True))
            row = Row(step, norms, [float(each) for each in losses])
            row.times = self._times(row.total)
            found.append(row)
        self._waiting.clear()
        self.rows.extend(found)
        return found

    def _times(self, total: float) -> float | None:
        """Return how many times as large a norm is as the median before; None for no spike."""
        if not math.isfinite(total):
            return None
        known = list(self._totals)
        self._totals.append(total)
        median = statistics.median(known) if len(known) >= _LEAST else 0.0
        return total / median if median and total > SPIKE * median else None

    def samples_at(self, step: int) -> bool:
        """Whether the numbers before and after a step are compared."""
        return step == 2 or step % _UPDATES_EVERY == 0

    def as_dicts(self) -> list[dict[str, float]]:
        """Return the rows with names, as trackers take them."""
        return [
            {
                "step": row.step,
                **({"loss": row.losses[-1]} if row.losses else {}),
                "grad_norm": row.total,
                **{f"grad_norm/{self.name(i)}": norm for i, norm in row.norms.items()},
                **{f"update/{self.name(i)}": ratio for i, ratio in row.ratios.items()},
            }
            for row in self.rows
        ]

    def name(self, place: int) -> str:
        """Return the name of a parameter by its place."""
        return self.names[place] if place < len(self.names) else f"parameter {place}"


class Sample:
    """Some numbers of each parameter and its gradient before a step, to compare with afterwards."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.tensors = list(held_by(optimizer))
        self.values = [_some(tensor) for tensor in self.tensors]
        self.grads = [_some(tensor.grad) for tensor in self.tensors]
        self.rates = [group.get("lr") for group in optimizer.param_groups for _ in group["params"]]

    @grad_mode_kept
    def changes(self) -> list[Change]:
        """Compare with the numbers now."""
        found = []
        with torch.no_grad():
            for i, (tensor, before) in enumerate(zip(self.tensors, self.values, strict=True)):
                after, grad = _some(tensor), self.grads[i]
                if before is None or after is None or after.shape != before.shape:
                    continue
                moved, size = (after.double() - before.double()).norm(), before.double().norm()
                has_grad = bool(grad.any()) if grad is not None else False
                rate = self.rates[i]
                found.append(
                    Change(
                        i,
                        float(moved),
                        float(size),
                        has_grad,
                        tensor.grad is None and grad is None,
                        rate is not None and not float(rate),
                        _rounds(before, grad, rate),
                        tensor.dtype,
                    )
                )
        return found


@dataclass(frozen=True)
class Change:
    """How far a step has moved the sampled numbers of one parameter."""

    place: int
    moved: float
    size: float
    has_grad: bool  # one of the sampled numbers has a gradient that is not zero
    is_without: bool  # .grad is None
    is_paused: bool  # its learning rate is 0
    rounds: bool  # the learning rate times the gradient is lost beside the numbers
    dtype: torch.dtype


def _rounds(values: torch.Tensor, grad: torch.Tensor | None, rate: Any) -> bool:
    if grad is None or rate is None:
        return False
    update = float(rate) * float(grad.abs().max())
    return update < torch.finfo(values.dtype).eps * float(values.abs().max())


@grad_mode_kept
def _some(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """Copy up to 4,096 numbers of a tensor, at equal distances; None if it cannot be read."""
    if tensor is None:
        return None
    part = own_part(tensor)
    value = tensor if part is None else part
    if not is_plain(value) or not value.is_floating_point() or not value.numel():
        return None
    with torch.no_grad():
        flat = value.detach().reshape(-1)
        return flat[:: math.ceil(flat.numel() / _SAMPLED)].clone()
