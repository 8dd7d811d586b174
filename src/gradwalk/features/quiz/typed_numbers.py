"""Numbers as a reader types them: read, compared with what torch has, and written back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ...schema.values import Values

# Relative, as torch.testing has them.
_TOLERANCES = {"torch.float64": 1e-7, "torch.float16": 1e-3, "torch.bfloat16": 1.6e-2}
_TOLERANCE = 1.3e-6
NOTHING = 1e-7
"""Less than this is left of numbers that cancel."""
_LEAST_DIGITS = 3


def read_number(text: str) -> float | None:
    """A number as a reader types it; None for what is none.

    Example::

        >>> [read_number(text) for text in ("-24", "−2.4e1", " 1/4 ", "a")]
        [-24.0, -24.0, 0.25, None]
    """
    plain = text.strip().replace("\N{MINUS SIGN}", "-").replace("\N{EN DASH}", "-")
    try:
        above, slash, below = plain.partition("/")
        if slash:
            # Of floats: a Fraction would write out every digit of 1e999999999.
            found = float(above) / float(below)
            return found if math.isfinite(found) and math.isfinite(float(below)) else None
        return float(plain)
    except (ValueError, ZeroDivisionError):
        return None


def is_near(number: float, truth: float, dtype: str | None, text: str = "") -> bool:
    """Whether an answer is right: as near as the dtype is exact, or the truth rounded.

    Args:
        number: The answer.
        truth: What torch has.
        dtype: As torch calls it, "torch.float32".
        text: The answer as it was typed: one with three digits or more may be rounded to them.
    """
    if math.isnan(truth) or math.isinf(truth):
        return math.isnan(number) if math.isnan(truth) else number == truth
    tolerance = _TOLERANCES.get(dtype or "", _TOLERANCE)
    if abs(number - truth) <= tolerance * abs(truth):
        return True
    # What is left of numbers that cancel is nothing; but 5e-8 is not 1e-8.
    nothing = NOTHING * min(1, tolerance / _TOLERANCE)
    if 0 in (number, truth) and abs(number - truth) <= nothing:
        return True
    digits = "" if "/" in text else text.lower().partition("e")[0]
    count = len("".join(c for c in digits if c.isdigit()).lstrip("0"))
    if count < _LEAST_DIGITS:
        return False
    return float(f"{truth:.{count - 1}e}") == number


def written(number: float) -> str:
    """A number as on a board: four digits, a true minus sign."""
    return f"{number:.4g}".replace("-", "\N{MINUS SIGN}")


def single_numbers(found: Mapping[int, Values | None]) -> Iterator[tuple[int, float]]:
    """The nodes that have one number, and the number."""
    for node, values in found.items():
        number = single_number(values)
        if number is not None:
            yield node, number


def single_number(values: Values | None) -> float | None:
    """The one number among values; None where there are none or several."""
    while isinstance(values, list) and len(values) == 1:
        values = values[0]
    if isinstance(values, (list, bool)) or values is None:
        return None
    try:
        return float(values)
    except ValueError:  # a complex number
        return None
