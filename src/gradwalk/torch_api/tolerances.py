"""How far two numbers of a dtype may be apart and count as close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch

from .capability import capability


def tolerances(*dtypes: torch.dtype) -> tuple[float, float]:
    """Return rtol and atol of ``torch.testing.assert_close`` for the coarsest of some dtypes.

    Example:
        >>> tolerances(torch.float32, torch.bfloat16)
        (0.016, 1e-05)
    """
    rtol, atol = _tolerances(*dtypes)
    return float(rtol), float(atol)


_DOCUMENTED = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
    **dict.fromkeys(
        (torch.quint8, torch.quint2x4, torch.quint4x2, torch.qint8, torch.qint32), (1.3e-6, 1e-5)
    ),
}
"""rtol and atol by dtype, from the documentation of ``torch.testing.assert_close``."""


def _documented_tolerances(*dtypes: torch.dtype) -> tuple[float, float]:
    rtols, atols = zip(*(_DOCUMENTED.get(each, (0.0, 0.0)) for each in dtypes), strict=True)
    return max(rtols), max(atols)


@capability("torch.testing._comparison.default_tolerances", otherwise=_documented_tolerances)
def _tolerances(default: Any) -> Callable[..., tuple[float, float]]:
    default(torch.float32, torch.int64)
    return cast("Callable[..., tuple[float, float]]", default)
