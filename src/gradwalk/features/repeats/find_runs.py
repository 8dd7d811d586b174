"""Runs of equal segments in a sequence: x, a b, a b, a b, a b, y."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from operator import eq
from typing import NamedTuple

LEAST_COUNT = 4
"""Fewest segments of a run; fewer are clear one by one."""
LEAST_COVERED = 16
"""Fewest tokens in a run."""
_MOST_PERIODS = 16
"""Periods that are tried, the most frequent distances between equal tokens first."""


class Run(NamedTuple):
    """A part of a sequence in which every token equals the one `period` later.

    Attributes:
        start: The place of its first token.
        stop: The place after its last token; the last segment may be incomplete.
        period: The length of a segment.
    """

    start: int
    stop: int
    period: int


def find_runs(tokens: Sequence[Hashable]) -> list[Run]:
    """Find the longest runs of equal segments, which do not overlap, in order.

    Linear in the number of tokens. Of a loop in a loop the outer one is found.
    """
    numbers: dict[Hashable, int] = {}
    ids = [numbers.setdefault(token, len(numbers)) for token in tokens]
    found = [run for period in _periods(ids) for run in _runs_of(ids, period)]
    found.sort(key=lambda run: (run.start - run.stop, run.period))
    chosen: list[Run] = []
    taken = bytearray(len(ids))
    for run in found:
        if not any(taken[run.start : run.stop]):
            taken[run.start : run.stop] = b"\1" * (run.stop - run.start)
            chosen.append(run)
    return sorted(chosen)


def _periods(ids: Sequence[int]) -> list[int]:
    """The most frequent distances from a token to the next equal one."""
    last: dict[int, int] = {}
    gaps: Counter[int] = Counter()
    for place, token in enumerate(ids):
        if token in last:
            gaps[place - last[token]] += 1
        last[token] = place
    frequent = [gap for gap, count in gaps.items() if count >= LEAST_COUNT - 1]
    return sorted(frequent, key=lambda gap: (-gaps[gap] * gap, gap))[:_MOST_PERIODS]


def _runs_of(ids: list[int], period: int) -> Iterator[Run]:
    place = 0
    for is_equal, group in groupby(map(eq, ids, ids[period:])):
        length = sum(1 for _ in group)
        covered = length + period
        if is_equal and covered >= max(LEAST_COVERED, LEAST_COUNT * period):
            yield Run(place, place + covered, period)
        place += length
