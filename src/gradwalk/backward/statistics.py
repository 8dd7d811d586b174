"""Numbers about a large gradient, taken while backward runs and it is at hand."""

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
    """Numbers about a gradient, left on its device so that nothing waits for it during backward.

    Attributes:
        norm: Its 2-norm.
        low: Its smallest value; None of complex numbers, as all that follow.
        high: Its largest value.
        nan: How many are NaN; None where there is none.
        inf: How many are infinite; None where there is none.
    """

    norm: torch.Tensor
    low: torch.Tensor | None = None
    high: torch.Tensor | None = None
    nan: torch.Tensor | None = None
    inf: torch.Tensor | None = None


def has_norm(tensor: torch.Tensor) -> bool:
    """Whether torch computes the norm of a tensor as it is: its values are in memory."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_nested
        and tensor.dtype in _DTYPES_WITH_NORM
        and why_unreadable(tensor) is None
    )


def norm_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The 2-norm of a tensor, left on its device; None where torch has none."""
    return _norm(*distinct(tensor)) if has_norm(tensor) else None


def _norm(once: torch.Tensor, repeats: int) -> torch.Tensor:
    norm: torch.Tensor
    if once.itemsize < 4 and once.is_floating_point():
        # A sum of squares soon overflows half precision; wider numbers are made some at a time.
        some = [torch.linalg.vector_norm(part, dtype=torch.float32) for part in parts(once)]
        norm = some[0] if len(some) == 1 else torch.linalg.vector_norm(torch.stack(some))
    else:
        norm = torch.linalg.vector_norm(once)
    return norm * math.sqrt(repeats) if repeats > 1 else norm


def statistics_of(tensor: torch.Tensor) -> Statistics:
    """All the numbers of a tensor that has a norm, and whose values are in memory."""
    once, repeats = distinct(tensor) if 0 in tensor.stride() else (tensor, 1)
    norm = _norm(once, repeats)
    if tensor.is_complex():
        return Statistics(norm)
    low, high = once.aminmax()
    if tensor.is_cpu and math.isfinite(norm.item()):  # elsewhere looking would have to wait
        return Statistics(norm, low, high)
    nan = torch.stack([part.isnan().sum() for part in parts(once)]).sum() * repeats
    inf = torch.stack([part.isinf().sum() for part in parts(once)]).sum() * repeats
    return Statistics(norm, low, high, nan, inf)


def padded(statistics: Statistics) -> Statistics:
    """The numbers of a tensor to which zeros were added."""
    low, high = statistics.low, statistics.high
    if low is None or high is None:
        return statistics
    return replace(statistics, low=low.clamp(max=0), high=high.clamp(min=0))
