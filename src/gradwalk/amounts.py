"""Amounts of memory and of work, and their text."""

from __future__ import annotations

import math
import re
from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_FACTORS = {
    f"{prefix}{unit}".lower(): base**power
    for unit, base in (("iB", 1024), ("B", 1000), ("", 1000))
    for power, prefix in enumerate(_PREFIXES)
}


class Bytes(int):
    """A number of bytes, printed with a unit.

    Example::

        >>> print(Bytes(5 * 2**29))
        2.50 GiB
    """

    def __str__(self) -> str:
        power = max(0, min(len(_UNITS) - 1, (abs(int(self)).bit_length() - 1) // 10))
        return f"{int(self)} B" if not power else f"{_digits(self / 1024**power)} {_UNITS[power]}"


class Flops(int):
    """A number of floating-point operations, printed with a unit.

    Example::

        >>> print(Flops(1_315 * 10**12))
        1.31 PFLOP
    """

    def __str__(self) -> str:
        power = max(0, min(len(_PREFIXES) - 1, (len(str(abs(int(self)))) - 1) // 3))
        number = str(int(self)) if not power else _digits(self / 1000**power)
        return f"{number} {_PREFIXES[power]}FLOP"


def _digits(number: float) -> str:
    """Write a number with three digits."""
    decimals = max(0, 2 - int(math.log10(max(abs(number), 1))))
    return f"{number:.{decimals}f}"


def read_bytes(given: Any) -> Bytes:
    """Read an amount of memory: a number of bytes, or a text such as "40GB" or "80 GiB".

    Raises:
        TypeError: It is neither.
        ValueError: The text is not a positive number with a unit, or the number is not positive.

    Example::

        >>> int(read_bytes("40GB")), int(read_bytes("1.5 KiB"))
        (40000000000, 1536)
    """
    if isinstance(given, str):
        found = re.fullmatch(r"\s*([\d_.,]+)\s*([a-zA-Z]*)\s*", given)
        unit = found[2].lower() if found else ""
        try:
            number = (
                float(found[1].replace(",", "")) * _FACTORS[unit] if found and unit else math.nan
            )
        except (ValueError, KeyError):
            number = math.nan
        if not number > 0:
            raise ValueError(
                f"budget was given {given!r}. Give a text with a unit, such as '40GB' or '80 GiB', "
                "or a number of bytes without quotes."
            )
        return Bytes(number)
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        kind = type(given).__name__
        raise TypeError(f"budget was given a {kind}. Give bytes, or a text such as '40GB'.")
    if not 0 < given < math.inf:
        raise ValueError(f"budget was given {given}. Give a positive number of bytes.")
    return Bytes(given)
