"""Cheap numbers of every step: norms of gradients, and of some steps how far they move."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from ...torch_api.modes import grad_mode_kept
from ...torch_api.reading import stacked_norms
from .norms import UNREAD, Norms, by_kind, grad_norms, numbers_of, readable
from .program import held_by

_MOST_ROWS = 10_000
_SAMPLED = 4096  # numbers of a parameter
_UPDATES_EVERY = 10
_FLUSHED_EVERY = 50  # steps, on a device that would have to be waited for
_WINDOW, _LEAST = 32, 8
SPIKE = 20.0
"""A spike is a norm so many times the median of the steps before."""


Numbered = Iterable[tuple[int, torch.Tensor | None]]


class Row:
    """The numbers of one step of one optimizer."""

    __slots__ = ("losses", "norms", "ratios", "step", "times", "total")

    def __init__(self, step: int, norms: dict[int, float], losses: list[float]) -> None:
        self.step, self.norms, self.losses = step, norms, losses
        self.ratios: dict[int, float] = {}
        self.times: float | None = None  # as large as the median before, if it is a spike
        self.total = math.hypot(*norms.values())
        if UNREAD in norms.values():
            self.total = math.hypot(*(norm for norm in norms.values() if norm != UNREAD))


class Statistics:
    """The numbers of the steps of one optimizer, by the place of each parameter in it."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.rows: deque[Row] = deque(maxlen=_MOST_ROWS)
        self.names: list[str] = []
        self._waiting: list[tuple[int, list[Norms], list[torch.Tensor]]] = []
        self._totals: deque[float] = deque(maxlen=_WINDOW)
        self.count = len(held_by(optimizer))

    def take(
        self, step: int, tensors: Sequence[torch.Tensor], losses: list[torch.Tensor]
    ) -> list[Row]:
        """Compute the norms of a step's gradients; return the rows that are known by now."""
        norms = grad_norms(tensors)
        self._waiting.append((step, norms, losses))
        numbers = [*losses, *(values for _, values in norms)]
        is_free = all(each.is_cpu for each in numbers)
        return self.flush() if is_free or len(self._waiting) >= _FLUSHED_EVERY else []

    def flush(self) -> list[Row]:
        """Read what was computed, and wait for the device if there is one."""
        found = []
        for step, groups, losses in self._waiting:
            row = Row(step, numbers_of(groups), [float(each) for each in losses])
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
        self.tensors = held_by(optimizer)
        self.values = _copied(enumerate(self.tensors))
        grads = _copied((i, each.grad) for i, each in enumerate(self.tensors))
        self.grads = {i: grad for group in grads for i, grad in group.items()}
        self.rates = [group.get("lr") for group in optimizer.param_groups for _ in group["params"]]

    def changes(self) -> list[Change]:
        """Compare with the numbers now."""
        return [change for group in self.values for change in self._changes(group)]

    @grad_mode_kept
    def _changes(self, before: dict[int, torch.Tensor]) -> list[Change]:
        """Compare the numbers of one dtype and device."""
        fit, now = [], []
        with torch.no_grad():
            for i, after in _some((i, self.tensors[i]) for i in before):
                if (after.shape, after.device) == (before[i].shape, before[i].device):
                    fit.append(i)
                    now.append(after)
            if not fit:
                return []
            sizes = [len(each) for each in now]
            old = torch.cat([before[i] for i in fit]).double()
            moved = torch.split(torch.cat(now).double() - old, sizes)
            norms = stacked_norms([*moved, *torch.split(old, sizes)], None).tolist()
            count = len(fit)
            return [
                self._change(i, norms[at], norms[count + at], before[i]) for at, i in enumerate(fit)
            ]

    def _change(self, i: int, moved: float, size: float, before: torch.Tensor) -> Change:
        tensor, grad, rate = self.tensors[i], self.grads.get(i), self.rates[i]
        is_stuck = not moved and grad is not None and bool(grad.any())
        rounds = False
        if is_stuck and grad is not None and rate is not None:
            update = float(rate) * float(grad.abs().max())
            rounds = update < torch.finfo(before.dtype).eps * float(before.abs().max())
        return Change(
            i,
            moved,
            size,
            is_stuck,
            is_without=tensor.grad is None and grad is None,
            is_paused=rate is not None and not float(rate),
            rounds=rounds,
            dtype=tensor.dtype,
        )


@dataclass(frozen=True)
class Change:
    """How far a step has moved the sampled numbers of one parameter."""

    place: int
    moved: float
    size: float
    is_stuck: bool  # not moved, although one of these numbers has a gradient that is not zero
    is_without: bool  # .grad is None
    is_paused: bool  # its learning rate is 0
    rounds: bool  # it is stuck, and the update is lost beside the numbers
    dtype: torch.dtype


def _copied(given: Numbered) -> list[dict[int, torch.Tensor]]:
    """Copy some numbers of each tensor, all of one dtype and device at once."""
    return [
        dict(zip(places, torch.split(torch.cat(parts), [len(each) for each in parts]), strict=True))
        for places, parts in by_kind(_some(given)).values()
    ]


@grad_mode_kept
def _some(given: Numbered) -> list[tuple[int, torch.Tensor]]:
    """Return up to 4,096 numbers of each tensor, at equal distances; none of unusual ones."""
    found = []
    with torch.no_grad():
        for i, tensor in given:
            value = None if tensor is None else readable(tensor)
            count = 0 if value is None else value.numel()
            if value is not None and count:
                flat = value.reshape(-1)
                found.append(
                    (i, flat[:: math.ceil(count / _SAMPLED)] if count > _SAMPLED else flat)
                )
    return found
