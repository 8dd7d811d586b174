"""Compute statistics of a large gradient during backward."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from ..torch_api.reading import distinct, parts, why_unreadable

_DTYPES_WITH_NORM = {
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
}


@dataclass(frozen=True)
class Statistics:
    """Statistics of a gradient, left on its device so that backward does not wait.

    Attributes:
        norm: Its 2-norm.
        low: Its smallest value; None for complex numbers, as are the following.
        high: Its largest value.
        nan: The number of NaN values; None for none.
        inf: The number of infinite values; None for none.
    """

    norm: torch.Tensor
    low: torch.Tensor | None = None
    high: torch.Tensor | None = None
    nan: torch.Tensor | None = None
    inf: torch.Tensor | None = None


def has_norm(tensor: torch.Tensor) -> bool:
    """Return whether torch computes the norm of a tensor directly: its values are in memory."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_nested
        and tensor.dtype in _DTYPES_WITH_NORM
        and why_unreadable(tensor) is None
    )


def norm_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the 2-norm of a tensor on its device; None if torch has none."""
    return _norm(*distinct(tensor)) if has_norm(tensor) else None


def _norm(once: torch.Tensor, repeats: int) -> torch.Tensor:
    norm: torch.Tensor
    if once.itemsize < 4 and once.is_floating_point():
        # A sum of squares may overflow half precision; convert part by part.
        some = [torch.linalg.vector_norm(part, dtype=torch.float32) for part in parts(once)]
        norm = some[0] if len(some) == 1 else torch.linalg.vector_norm(torch.stack(some))
    else:
        norm = torch.linalg.vector_norm(once)
    return norm * math.sqrt(repeats) if repeats > 1 else norm


def statistics_of(tensor: torch.Tensor) -> Statistics:
    """Return the statistics of a tensor that `has_norm`."""
    once, repeats = distinct(tensor) if 0 in tensor.stride() else (tensor, 1)
    norm = _norm(once, repeats)
    if tensor.is_complex():
        return Statistics(norm)
    low, high = once.aminmax()
    if tensor.is_cpu and math.isfinite(norm.item()):  # reading another device would wait
        return Statistics(norm, low, high)
    nan = torch.stack([part.isnan().sum() for part in parts(once)]).sum() * repeats
    inf = torch.stack([part.isinf().sum() for part in parts(once)]).sum() * repeats
    return Statistics(norm, low, high, nan, inf)


def padded(statistics: Statistics) -> Statistics:
    """Return the statistics after padding with zeros."""
    low, high = statistics.low, statistics.high
    if low is None or high is None:
        return statistics
    return replace(statistics, low=low.clamp(max=0), high=high.clamp(min=0))
