"""Numbers about a large gradient, taken while backward runs and it is at hand."""

from __future__ import annotations

from dataclasses import dataclass

import torch

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
        low: Its smallest value.
        high: Its largest value.
        nan: How many are NaN; None where there is none.
        inf: How many are infinite; None where there is none.
    """

    norm: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    nan: torch.Tensor | None = None
    inf: torch.Tensor | None = None


def has_norm(tensor: torch.Tensor) -> bool:
    """Whether torch computes the norm of such a tensor as it is."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_nested
        and tensor.device.type != "meta"
        and tensor.dtype in _DTYPES_WITH_NORM
    )


def norm_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The 2-norm of a tensor, left on its device; None where torch has none."""
    return _norm(tensor) if has_norm(tensor) else None


def _norm(tensor: torch.Tensor) -> torch.Tensor:
    # A sum of squares soon overflows half precision.
    wide = torch.float32 if tensor.itemsize < 4 else None
    norm: torch.Tensor = torch.linalg.vector_norm(tensor, dtype=wide)
    return norm


def statistics_of(tensor: torch.Tensor) -> Statistics:
    """All the numbers of a real tensor that has a norm."""
    norm = _norm(tensor)
    low, high = tensor.aminmax()
    if tensor.device.type == "cpu" and norm.isfinite():  # elsewhere looking would have to wait
        return Statistics(norm, low, high)
    return Statistics(norm, low, high, tensor.isnan().sum(), tensor.isinf().sum())
