"""Numbers that somebody hands over."""

from __future__ import annotations

import operator
from typing import Any


def read_int(value: Any, given: str, instead: str) -> int:
    """A whole number of whatever kind, checked.

    Args:
        value: What was given.
        given: How to say that it was, up to the value itself: "cursor was given ".
        instead: What to give instead, as a sentence.

    Raises:
        TypeError: It is none.

    Example::

        >>> read_int(3, "n was given ", "Give a number of steps.")
        3
        >>> read_int("3", "n was given ", "Give a number of steps.")
        Traceback (most recent call last):
        TypeError: n was given '3', of type str. Give a number of steps.
    """
    try:
        return operator.index(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(f"{given}{value!r}, of type {kind}. {instead}") from None
