"""Keeping gradients as they were when they flowed, within a budget of memory."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .summary import MOST_VALUES, json_number, summarise
from .summary import frame as frame_of
from .wire import TensorSummary

DEFAULT_BUDGET = 256 * 2**20
"""Bytes of large gradients kept alive per run; beyond that only their statistics are kept."""

_DTYPES_WITH_NORM = {
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
}


@dataclass(frozen=True)
class Kept:
    """A gradient as it was when it flowed.

    Attributes:
        tensor: Its values, detached; None when the budget was spent.
        version: How often ``tensor`` had been changed in place by then.
        summary: What is left without the values; None while there are values.
        norm: The 2-norm of a large gradient, taken while it is at hand and left on its device, so
            that nothing waits for it during backward.
        statistics: The other numbers missing from ``summary``, left there too: min, max, mean, and
            how many are NaN, infinite and zero.
    """

    tensor: torch.Tensor | None
    version: int = 0
    summary: TensorSummary | None = None
    norm: torch.Tensor | None = None
    statistics: torch.Tensor | None = None

    def summarise(self) -> TensorSummary:
        """The gradient as plain values, with a note if it was changed in place since."""
        if self.tensor is None:
            return self._without_values()
        summary = summarise(self.tensor)
        if self.changed:
            summary["note"] = (
                "This tensor was changed in place after it flowed here (by a hook or by the "
                "program); the values are those it holds now."
            )
        return summary

    @property
    def changed(self) -> bool:
        """Whether the values are no longer those that flowed."""
        return self.tensor is not None and self.tensor._version != self.version

    def _without_values(self) -> TensorSummary:
        assert self.summary is not None
        summary = self.summary.copy()
        if self.norm is not None:
            summary["norm"] = json_number(self.norm.item())
        if self.statistics is not None:
            low, high, mean, nan, inf, zeros = self.statistics.tolist()
            summary["min"], summary["max"] = json_number(low), json_number(high)
            summary["mean"] = json_number(mean)
            summary["nan"], summary["inf"], summary["zeros"] = int(nan), int(inf), int(zeros)
        return summary


class Keeper:
    """Keeps the gradients of one run.

    Attributes:
        over_budget: How many gradients were kept as statistics only.
    """

    def __init__(self, budget: int) -> None:
        """Start with nothing kept.

        Args:
            budget: Bytes of large gradients to keep alive.
        """
        self.over_budget = 0
        self._budget = budget
        self._bytes = 0
        self._storages: set[int] = set()
        # One node's grad_input is the next one's grad_output: the same tensor, kept once.
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int, Kept]] = {}

    def keep(self, grad: torch.Tensor | None, copy: bool) -> Kept | None:
        """Keep a gradient.

        Args:
            grad: What torch handed to the hook.
            copy: Whether it may be changed in place from now on, because it may become a leaf's
                ``.grad``. Others are kept as an alias, which costs no time, only memory that
                stays alive.

        Returns:
            The gradient, or None for None.
        """
        if grad is None:
            return None
        known = self._known.get(id(grad))
        if known is not None and known[0]() is grad and known[1] == grad._version:
            return known[2]
        try:
            kept = self._keep(grad.detach(), copy)
        except RuntimeError:
            # A batched gradient, as in jacobian(vectorize=True), has no values here.
            return Kept(None, summary=summarise(grad))
        self._known[id(grad)] = weakref.ref(grad), grad._version, kept
        return kept

    def _keep(self, grad: torch.Tensor, copy: bool) -> Kept:
        if grad.layout is not torch.strided or grad.is_nested or grad.numel() <= MOST_VALUES:
            return Kept(grad.clone())
        norm = _norm(grad)
        storage = _storage_id(grad)
        size = 0 if storage in self._storages and not copy else grad.numel() * grad.element_size()
        if self._bytes + size > self._budget:
            self.over_budget += 1
            return _as_statistics(grad, norm, self._budget)
        self._bytes += size
        if copy:
            return Kept(grad.clone(), norm=norm)
        self._storages.add(storage)
        return Kept(grad, grad._version, norm=norm)


def _storage_id(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return id(tensor)  # a wrapper, such as those of torch.func, has no storage of its own


def _norm(grad: torch.Tensor) -> torch.Tensor | None:
    if grad.dtype not in _DTYPES_WITH_NORM or grad.device.type == "meta":
        return None
    # A sum of squares soon overflows half precision.
    norm: torch.Tensor = torch.linalg.vector_norm(
        grad, dtype=torch.float32 if grad.itemsize < 4 else None
    )
    return norm


def _as_statistics(grad: torch.Tensor, norm: torch.Tensor | None, budget: int) -> Kept:
    summary = frame_of(grad)
    summary["note"] = (
        "Only statistics were kept: the gradients of this backward pass exceed the budget of "
        f"{budget / 2**20:.4g} MB."
    )
    if norm is None or grad.is_complex():
        return Kept(None, summary=summary, norm=norm)
    low, high = grad.aminmax()
    mean = grad.mean(dtype=torch.float32 if grad.itemsize < 4 else None)
    zeros = grad.numel() - grad.count_nonzero()
    if grad.device.type == "cpu" and norm.isfinite():  # elsewhere looking would have to wait
        nan = inf = torch.zeros(())
    else:
        nan, inf = grad.isnan().sum(), grad.isinf().sum()
    wide = torch.float32 if grad.device.type == "mps" else torch.float64
    numbers = [number.to(wide) for number in (low, high, mean, nan, inf, zeros)]
    return Kept(None, summary=summary, norm=norm, statistics=torch.stack(numbers))


def norms(kept: Sequence[Kept | None]) -> list[float | None]:
    """The 2-norms of gradients, read from each device at once.

    Args:
        kept: Gradients; None where none flowed.

    Returns:
        One norm per gradient, NaN or infinite if a value is; None for None and for gradients that
        have no values to look at.
    """
    found: list[float | None] = [None] * len(kept)
    groups: dict[tuple[torch.device, torch.dtype, bool], list[tuple[int, Kept]]] = {}
    for i, each in enumerate(kept):
        if each is None:
            continue
        like = each.norm if each.norm is not None else each.tensor
        if like is not None and _is_plain(like):
            key = like.device, like.dtype, each.norm is not None
            groups.setdefault(key, []).append((i, each))
        else:
            found[i] = _as_float(each.summarise()["norm"])
    for (_, _, taken), group in groups.items():
        several = [each for _, each in group]
        values = _taken_norms(several) if taken else _small_norms(several)
        for (i, each), norm in zip(group, values, strict=True):
            # The squares may overflow where the numbers do not: then in float64.
            overflowed = norm is not None and math.isinf(norm) and each.tensor is not None
            found[i] = _as_float(each.summarise()["norm"]) if overflowed else norm
    return found


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and not tensor.is_nested
        and tensor.device.type != "meta"
        and tensor.dtype in _DTYPES_WITH_NORM
    )


def _taken_norms(group: Sequence[Kept]) -> list[float | None]:
    found: list[float | None] = torch.stack([k.norm for k in group if k.norm is not None]).tolist()
    return found


def _small_norms(group: Sequence[Kept]) -> list[float | None]:
    plain = [kept.tensor for kept in group if kept.tensor is not None]
    narrow = torch.float32 if plain[0].itemsize < 4 else None
    try:
        found: list[float | None] = torch.stack(
            torch._foreach_norm(plain, 2, dtype=narrow)
        ).tolist()
    except (RuntimeError, NotImplementedError):  # a tensor subclass may refuse any operation
        return [_as_float(each.summarise()["norm"]) for each in group]
    return found


def _as_float(number: float | str | None) -> float | None:
    return None if number is None else float(number)
