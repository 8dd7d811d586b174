"""A number as JSON can carry it."""

from __future__ import annotations

import math

from .values import JsonNumber

_LARGEST_EXACT = 2**53  # a browser's numbers are doubles


def json_number(value: float) -> JsonNumber:
    """A number as JSON can carry it: NaN, infinities and integers beyond 2**53 become strings."""
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST_EXACT else str(value)
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
