"""Read integers that a user passed."""

from __future__ import annotations

import operator
from typing import Any

MOST_NODES = 200_000
"""The most nodes that are drawn by default."""


def read_int(value: Any, given: str, instead: str) -> int:
    """Convert any kind of integer to ``int``.

    Example:
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


def read_most(max_nodes: Any) -> int | None:
    """Check the argument ``max_nodes``."""
    if max_nodes is None:
        return None
    instead = "Give the most nodes to draw, such as 1_000_000, or None for any number."
    count = read_int(max_nodes, "max_nodes was given ", instead)
    if count < 1:
        raise ValueError(f"max_nodes was given {count}. Give a number from 1, or None for any.")
    return count
