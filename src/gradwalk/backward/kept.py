"""Keeping gradients as they were when they flowed, within a budget of memory."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..graph.reading import distinct, storage_id, why_unreadable
from ..graph.summary import MOST_VALUES, json_number, summarise, without_values
from ..graph.tensors import two_norms, version_of
from ..wire import TensorSummary
from .statistics import Statistics, has_norm, norm_of, statistics_of

DEFAULT_BUDGET = 256 * 2**20
"""Bytes of large gradients kept alive per run; beyond that only their statistics are kept."""
LARGEST_COPY = 2**20
"""Bytes of a gradient that is still copied rather than referred to."""


@dataclass(frozen=True)
class Kept:
    """A gradient as it was when it flowed.

    Attributes:
        tensor: Its values, detached; None when the budget was spent.
        version: How often ``tensor`` had been changed in place by then.
        owned: Whether ``tensor`` is a copy of ours rather than an alias.
        summary: What is left without the values; None while there are values.
        norm: The 2-norm of a large gradient, taken while it is at hand and left on its device.
        statistics: The other numbers missing from ``summary``.
    """

    tensor: torch.Tensor | None
    version: int = 0
    owned: bool = False
    summary: TensorSummary | None = None
    norm: torch.Tensor | None = None
    statistics: Statistics | None = None

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
        return self.tensor is not None and version_of(self.tensor) != self.version

    def _without_values(self) -> TensorSummary:
        assert self.summary is not None
        summary = self.summary.copy()
        if self.norm is not None:
            summary["norm"] = json_number(self.norm.item())
        if (found := self.statistics) is not None:
            summary["min"] = json_number(found.low.item())
            summary["max"] = json_number(found.high.item())
            summary["nan"] = 0 if found.nan is None else int(found.nan)
            summary["inf"] = 0 if found.inf is None else int(found.inf)
        return summary


class Keeper:
    """Keeps the gradients of one run."""

    def __init__(self, max_bytes: int) -> None:
        """Start with nothing kept.

        Args:
            max_bytes: Bytes of large gradients to keep alive.
        """
        self._max_bytes = max_bytes
        self._bytes = 0
        self._storages: set[int] = set()
        # One node's grad_input is the next one's grad_output: the same tensor, kept once.
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int, Kept]] = {}
        # Views of one memory that one step has at hand: their numbers are the same.
        self._at_hand: dict[tuple[int, int, torch.dtype], Kept] = {}

    def begin_step(self) -> None:
        """A node's gradients are about to be kept."""
        self._at_hand.clear()

    def keep(self, grad: torch.Tensor | None, copy: bool) -> Kept | None:
        """Keep a gradient.

        Args:
            grad: What torch handed to the hook.
            copy: Whether it may become a leaf's ``.grad``, to be accumulated into or clipped
                later: copied, unless it is so large that the time would be felt. All others are
                kept as an alias, which costs no time, only memory that stays alive.

        Returns:
            The gradient, or None for None.
        """
        if grad is None:
            return None
        known = self._known.get(id(grad))
        counts = not grad.is_inference()  # an inference tensor does not tell that it was changed
        if known is not None and known[0]() is grad and known[1] == version_of(grad) and counts:
            kept = known[2]
        else:
            try:
                kept = self._keep(grad.detach(), copy or not counts)
            except RuntimeError:
                # A batched gradient, as in jacobian(vectorize=True), has no values here.
                return Kept(None, summary=summarise(grad))
            self._known[id(grad)] = weakref.ref(grad), version_of(grad), kept
        if kept.norm is not None:
            self._at_hand[_memory(grad)] = kept
        return kept

    def _keep(self, grad: torch.Tensor, copy: bool) -> Kept:
        if why_unreadable(grad) is not None:
            return Kept(None, summary=summarise(grad))
        if grad.layout is not torch.strided or grad.is_nested or grad.numel() <= MOST_VALUES:
            return Kept(grad.clone(), owned=True)
        alike = self._at_hand.get(_memory(grad)) if has_norm(grad) else None
        size = grad.numel() * grad.element_size()
        stays = copy and size > LARGEST_COPY  # in `.grad`, which keeps it alive, not we
        size = distinct(grad)[0].numel() * grad.element_size()
        storage = storage_id(grad) or id(grad)
        if stays or (storage in self._storages and not copy):
            size = 0
        if self._bytes + size > self._max_bytes:
            return self._without_values(grad, alike)
        self._bytes += size
        norm = norm_of(grad) if alike is None else alike.norm
        if copy and not stays:
            return Kept(grad.clone(), owned=True, norm=norm)
        if not stays:
            self._storages.add(storage)
        return Kept(grad, version_of(grad), norm=norm)

    def _without_values(self, grad: torch.Tensor, alike: Kept | None) -> Kept:
        summary = without_values(grad)
        summary["note"] = (
            "Only statistics were kept: the gradients of this backward pass exceed max_bytes, "
            f"{self._max_bytes / 2**20:.4g} MiB."
        )
        if not has_norm(grad):
            return Kept(None, summary=summary)
        if grad.is_complex():
            return Kept(None, summary=summary, norm=norm_of(grad))
        found = alike.statistics if alike is not None else None
        if found is None:
            found = statistics_of(grad)
        return Kept(None, summary=summary, norm=found.norm, statistics=found)


def _memory(grad: torch.Tensor) -> tuple[int, int, torch.dtype]:
    return grad.data_ptr(), grad.numel(), grad.dtype


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
        if like is not None and has_norm(like) and why_unreadable(like) is None:
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


def _taken_norms(group: Sequence[Kept]) -> list[float | None]:
    found: list[float | None] = torch.stack([k.norm for k in group if k.norm is not None]).tolist()
    return found


def _small_norms(group: Sequence[Kept]) -> list[float | None]:
    plain = [kept.tensor for kept in group if kept.tensor is not None]
    narrow = torch.float32 if plain[0].itemsize < 4 else None
    try:
        return [*two_norms(plain, narrow)]
    except (RuntimeError, NotImplementedError):  # a tensor subclass may refuse any operation
        return [_as_float(each.summarise()["norm"]) for each in group]


def _as_float(number: float | str | None) -> float | None:
    return None if number is None else float(number)
