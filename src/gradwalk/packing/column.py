"""Columns of integers, in which runs are written once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ..wire import Column, Ranges

_LEAST = 3  # a shorter run is shorter written out


def pack_column(numbers: Iterable[int]) -> Column:
    """Write runs of the same number once.

    Args:
        numbers: One per row.

    Returns:
        The numbers, a run of three and more as [number, how often].

    Example::

        >>> pack_column([4, 0, 0, 0, 0, 1, 1])
        [4, [0, 4], 1, 1]
    """
    packed: Column = []
    last, run = 0, 0
    for number in numbers:
        if number == last:
            run += 1
            continue
        if run < _LEAST:
            packed += [last] * run
        else:
            packed.append([last, run])
        last, run = number, 1
    packed += [last] * run if run < _LEAST else [[last, run]]
    return packed


def unpack_column(packed: Column) -> list[int]:
    """The numbers of a column: the inverse of `pack_column`."""
    numbers: list[int] = []
    for part in packed:
        if isinstance(part, list):
            numbers += [part[0]] * part[1]
        else:
            numbers.append(part)
    return numbers


def differences(numbers: Iterable[int]) -> list[int]:
    """By how much each number is larger than the one before it; the first than 0."""
    return [after - before for before, after in pairwise([0, *numbers])]


def pack_ranges(numbers: Iterable[int]) -> Ranges:
    """Write numbers that follow each other as ranges.

    Args:
        numbers: Places or ids, usually in ascending order.

    Returns:
        The numbers in the same order, three and more that follow each other as [first, last].

    Example::

        >>> pack_ranges([0, 1, 2, 3, 7, 9, 10])
        [[0, 3], 7, 9, 10]
    """
    packed: Ranges = []
    first = last = None
    for number in numbers:
        if last is not None and number == last + 1:
            last = number
            continue
        _close(packed, first, last)
        first = last = number
    _close(packed, first, last)
    return packed


def unpack_ranges(packed: Ranges) -> list[int]:
    """The numbers in ranges: the inverse of `pack_ranges`."""
    numbers: list[int] = []
    for part in packed:
        if isinstance(part, list):
            numbers += range(part[0], part[1] + 1)
        else:
            numbers.append(part)
    return numbers


def _close(packed: Ranges, first: int | None, last: int | None) -> None:
    if first is None or last is None:
        return
    if last - first + 1 < _LEAST:
        packed += range(first, last + 1)
    else:
        packed.append([first, last])
