"""The gradient of each node over the ranks of a run, in at most 16 bars."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ...schema.graph import EdgeRanksModel, ElsewhereModel, NodeRanksModel, RanksModel
from ...schema.ranks import RankModel
from .leaf_over_ranks import in_words, number_of

MOST_BARS = 16
"""Most bars; with more ranks, several ranks share a bar."""

ODD = 10.0
"""A norm is an outlier if it differs from the median by more than this factor."""

_FEWEST_JUDGED = 3  # with two norms, neither is the outlier
_MOST_NAMED = 3
_MOST_GRAPHS = 8


def ranks_model(
    shown: int,
    ranks: Sequence[RankModel],
    nodes: int,
    pairs: Mapping[int, Mapping[int, int]],
    among: Callable[[int], Collection[int]],
    *,
    edges: Sequence[EdgeRanksModel],
) -> RanksModel:
    """Return the gradient norms of each node on the ranks.

    Args:
        shown: The rank whose numbers are drawn.
        ranks: The reports of the ranks, ascending.
        nodes: How many autograd nodes that has.
        pairs: Rank -> node of the shown graph -> the same node of that rank's graph; a missing rank
            has the same graph.
        among: Gives the ranks that should have a node.
        edges: The edges that some ranks lack.

    Returns:
        Plain values whose size depends on the nodes, not on the ranks.
    """
    numbers = [said["rank"] for said in ranks]
    size = max(1, math.ceil(len(ranks) / MOST_BARS))
    firsts = range(0, len(ranks), size)
    columns = [_on(said, nodes, pairs.get(said["rank"])) for said in ranks]
    found = []
    for node in range(nodes):
        due = among(node)
        row = [
            column[node] if number in due else _BEYOND
            for number, column in zip(numbers, columns, strict=True)
        ]
        if any(each is not None and each is not _BEYOND for each in row):
            on_shown = pairs.get(shown)
            is_here = on_shown is None or node in on_shown
            found.append(_node_model(node, row, numbers, size, is_here))
    return {
        "shown": shown,
        "count": len(ranks),
        "first": [numbers[i] for i in firsts],
        "last": [numbers[min(i + size, len(ranks)) - 1] for i in firsts],
        "nodes": found,
        "edges": [*edges],
        "elsewhere": _elsewhere(ranks, pairs),
    }


def are_odd(norms: Sequence[float | None]) -> list[bool]:
    """Mark the norms that differ from most of the others.

    Args:
        norms: By rank; None where there is no gradient.

    Returns:
        By rank, whether it is of another kind than most (finite, not finite, none at all; of kinds
        that are as frequent the first is the usual one), or finite and, beside two others at least,
        more than 10 times the middle one, or less than a tenth of it.

    Example::

        >>> are_odd([1.0, 2.0, 50.0, None])
        [False, False, True, True]
    """
    finite = [norm for norm in norms if norm is not None and math.isfinite(norm)]
    none = sum(norm is None for norm in norms)
    counts = [len(finite), none, len(norms) - len(finite) - none]
    usual = counts.index(max(counts, default=0))
    middle = statistics.median(finite) if len(finite) >= _FEWEST_JUDGED else None
    return [
        (kind := _kind(norm)) != usual
        or (kind == 0 and middle is not None and _is_far(norm or 0.0, middle))
        for norm in norms
    ]


def _kind(norm: float | None) -> int:
    return 1 if norm is None else 0 if math.isfinite(norm) else 2


def _is_far(norm: float, middle: float) -> bool:
    return norm > ODD * middle or norm < middle / ODD


def _elsewhere(
    ranks: Sequence[RankModel], pairs: Mapping[int, Mapping[int, int]]
) -> list[ElsewhereModel]:
    """The nodes that other ranks have beyond the shown graph; equal graphs share an entry."""
    alike: dict[str, list[RankModel]] = {}
    for said in ranks:
        if pairs.get(said["rank"]):  # of a graph that has something in common with the shown one
            alike.setdefault(said["structure"], []).append(said)
    found: list[ElsewhereModel] = []
    for first, *others in alike.values():
        here = set(pairs[first["rank"]].values())
        count = sum(node not in here for node in range(len(first["norms"])))
        names = [
            leaf["name"] for leaf in first["leaves"] if leaf["node"] not in here and leaf["name"]
        ]
        if count:
            found.append(
                {
                    "rank": first["rank"],
                    "ranks": _some([first["rank"], *(said["rank"] for said in others)]),
                    "count": count,
                    "names": names[:_MOST_NAMED],
                }
            )
    return found[:_MOST_GRAPHS]


def _some(ranks: list[int]) -> str:
    return in_words(ranks) if len(ranks) <= _MOST_NAMED else f"{len(ranks)} ranks"


class _Lacking:
    """A mark for a node that a graph lacks."""


_LACKS: Any = _Lacking()  # the rank should have it
_BEYOND: Any = _Lacking()  # the rank does something else


def _on(said: RankModel, nodes: int, pairs: Mapping[int, int] | None) -> list[Any]:
    """The norms on one rank, by node of the shown graph."""
    norms = dict(enumerate(map(number_of, said["norms"])))  # of a damaged file there are too few
    if pairs is None:
        return [norms.get(node) for node in range(nodes)]
    return [norms.get(pairs[node]) if node in pairs else _LACKS for node in range(nodes)]


def _node_model(
    node: int, row: list[Any], numbers: list[int], size: int, is_here: bool
) -> NodeRanksModel:
    norms: list[float | None] = [None if isinstance(each, _Lacking) else each for each in row]
    due = [i for i, each in enumerate(row) if each is not _BEYOND]
    odd = dict(zip(due, are_odd([norms[i] for i in due]), strict=True))
    bars = [range(i, min(i + size, len(row))) for i in range(0, len(row), size)]
    finite = [[n for i in bar if (n := norms[i]) is not None and math.isfinite(n)] for bar in bars]
    places = [*enumerate(bars)]
    return {
        "node": node,
        "most": [_short(max(each, default=None)) for each in finite],
        "least": None if size == 1 else [_short(min(each, default=None)) for each in finite],
        "not_finite": [
            at for at, bar in places if any((n := norms[i]) is not None and n - n != 0 for i in bar)
        ],
        "without": [
            at for at, bar in places if any(norms[i] is None and row[i] is not _BEYOND for i in bar)
        ],
        "beyond": [at for at, bar in places if all(row[i] is _BEYOND for i in bar)],
        "odd": [at for at, bar in places if any(odd.get(i, False) for i in bar)],
        "only": _only(
            [numbers[i] for i in due if row[i] is not _LACKS],
            [numbers[i] for i in due if row[i] is _LACKS],
        ),
        "here": is_here,
    }


def _short(norm: float | None) -> float | None:
    """Round to the digits that a bar can show."""
    return None if norm is None else float(f"{norm:.4g}")


def _only(having: list[int], lacking: list[int]) -> str | None:
    """Name the ranks that have a node, if some lack it that should have it."""
    if not lacking:
        return None
    if len(having) == 1 or len(having) <= _MOST_NAMED < len(lacking):
        return f"only on {in_words(having)}"
    if len(lacking) <= _MOST_NAMED:
        return f"not on {in_words(lacking)}"
    return f"on {len(having)} of {len(having) + len(lacking)} ranks"
