"""Compare one leaf over all ranks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from ...english import MOST_LISTED, list_some
from ...schema.graph import EdgeRanksModel, ElsewhereModel, NodeRanksModel, RanksModel
from ...schema.ranks import RankLeafModel, RankModel, StatisticsModel
from ...schema.values import JsonNumber

MOST_BARS = 16  # most bars; with more ranks, several ranks share a bar

ODD = 10.0  # a norm is an outlier if it differs from the median by more than this factor

_FEWEST_JUDGED = 3  # with two norms, neither is the outlier
_MOST_NAMED = 3
_MOST_GRAPHS = 8


def ranks_model(
    shown: int,
    ranks: Sequence[RankModel],
    nodes: int,
    pairs: Mapping[int, Mapping[int, int]],
    among: Collection[int],
    *,
    edges: Sequence[EdgeRanksModel],
) -> RanksModel:
    """Return each node's gradient norms.

    ``pairs``: rank -> shown node -> that rank's node. ``among``: the replicas of the shown rank.
    """
    numbers = [report["rank"] for report in ranks]
    size = max(1, math.ceil(len(ranks) / MOST_BARS))
    firsts = range(0, len(ranks), size)
    columns = [_on(report, nodes, pairs.get(report["rank"])) for report in ranks]
    found = []
    for node in range(nodes):
        row = [
            column[node] if number in among else _BEYOND
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

    A norm is finite, infinite or NaN, or None without a gradient. One of another kind than most is
    odd; of equally frequent kinds the first is the usual one. Among three finite norms or more, one
    over 10 times the median or under a tenth of it is odd, too. ``norms`` and the result: by rank.
    """
    finite = [norm for norm in norms if norm is not None and math.isfinite(norm)]
    none = sum(norm is None for norm in norms)
    counts = [len(finite), none, len(norms) - len(finite) - none]
    usual = counts.index(max(counts, default=0))
    middle = statistics.median(finite) if len(finite) >= _FEWEST_JUDGED else None
    return [
        (kind := _kind(norm)) != usual
        or (kind == 0 and middle is not None and not middle / ODD <= (norm or 0.0) <= ODD * middle)
        for norm in norms
    ]


def _kind(norm: float | None) -> int:
    return 1 if norm is None else 0 if math.isfinite(norm) else 2


def _elsewhere(
    ranks: Sequence[RankModel], pairs: Mapping[int, Mapping[int, int]]
) -> list[ElsewhereModel]:
    """Return the nodes that the shown graph lacks; ranks with equal graphs share an entry."""
    alike: dict[str, list[RankModel]] = {}
    for report in ranks:
        if pairs.get(report["rank"]):  # of a graph that has something in common with the shown one
            alike.setdefault(report["structure"], []).append(report)
    found: list[ElsewhereModel] = []
    for first, *others in alike.values():
        here = set(pairs[first["rank"]].values())
        count = sum(node not in here for node in range(len(first["norms"])))
        beyond = (leaf for leaf in first["leaves"] if leaf["node"] not in here)
        names = [leaf["name"] for leaf in beyond if leaf["name"]][:_MOST_NAMED]
        numbers = [first["rank"], *(report["rank"] for report in others)]
        of = as_ranks(numbers) if len(numbers) <= _MOST_NAMED else f"{len(numbers)} ranks"
        if count:
            found.append({"rank": first["rank"], "ranks": of, "count": count, "names": names})
    return found[:_MOST_GRAPHS]


class _Lacking:
    """A mark for a node that a graph lacks."""


_LACKS: Any = _Lacking()  # the rank should have it
_BEYOND: Any = _Lacking()  # the rank is not a replica, so it has another part of the model


def _on(report: RankModel, nodes: int, pairs: Mapping[int, int] | None) -> list[Any]:
    """Return the norms on one rank, by node of the shown graph."""
    norms = dict(enumerate(map(number_of, report["norms"])))  # of a damaged file there are too few
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
        return f"only on {as_ranks(having)}"
    if len(lacking) <= _MOST_NAMED:
        return f"not on {as_ranks(lacking)}"
    return f"on {len(having)} of {len(having) + len(lacking)} ranks"


_SAME = 1e-5
"""Reduced gradients are the same bit for bit; weights may have been summed in another order."""

_MOST_TRIED = 5  # of so many ranks one is most likely like most of them


@dataclass(frozen=True)
class LeafOverRanks:
    """One leaf on all ranks."""

    name: str  # its name in the program
    node: int | None  # its node in the graph that is shown; None where that rank lacks it
    # Rank -> the leaf there; ranks whose graph lacks it are left out.
    on: Mapping[int, RankLeafModel]
    among: frozenset[int]  # the ranks that should have it: all that do the same as those of ``on``

    @property
    def words(self) -> str:
        """Its name, and the line that uses it."""
        return f"{self.name}{self.at}"

    @property
    def at(self) -> str:
        """The line that uses it, for after its name; "" where that was not watched."""
        line = next((leaf["line"] for leaf in self.on.values() if leaf["line"]), None)
        if line is None:
            return ""
        text = f" (`{line['text']}`)" if line["text"] else ""
        return f" at {line['file']}:{line['line']}{text}"

    @cached_property
    def is_under_ddp(self) -> bool:
        """Whether DistributedDataParallel keeps it the same everywhere."""
        return any(each["parallel"] == "DDP" for each in self.on.values())

    @cached_property
    def is_placed(self) -> bool:
        """Whether it is a DTensor, whose placement says what is the same where."""
        return any(each["copies"] is not None for each in self.on.values())

    @cached_property
    def not_as_most(self) -> dict[Any, tuple[list[int], list[int]]]:
        """Cache of `not_as_most`, by its arguments."""
        return {}

    @cached_property
    def _summaries(self) -> dict[Of, dict[int, _Summary]]:
        """Cache of `known`."""
        return {}

    def known(self, of: Of) -> dict[int, _Summary]:
        """Return the known statistics of one of its tensors by rank, ascending."""
        if of not in self._summaries:
            self._summaries[of] = {
                rank: _summary(found)
                for rank, each in sorted(self.on.items())
                if (found := of(each)) is not None
            }
        return self._summaries[of]


_Summary = tuple[list[int], tuple[float | None, ...]]
"""The shape of a tensor and its statistics, norm first."""

Of = Callable[[RankLeafModel], StatisticsModel | None]  # which of the tensors of a leaf

value_of: Of = itemgetter("value")
local_of: Of = itemgetter("local")
reduced_of: Of = itemgetter("reduced")  # its ``.grad``


def differ(leaf: LeafOverRanks, of: Of, ranks: Collection[int] | None = None) -> bool:
    """Whether some ranks that have it, or all of them, hold different numbers."""
    found = [summary for _, summary in _among(leaf, of, ranks)]
    return not all(_are_same(found[0], other) for other in found[1:])


def others_than_most(leaf: LeafOverRanks, of: Of, ranks: Collection[int] | None = None) -> str:
    """A sentence on the ranks that differ from the majority; "" without one."""
    most, odd = not_as_most(leaf, of, ranks)
    if not odd:
        return ""
    return f" It is the same on {as_ranks(most)}, and not on {as_ranks(odd)}."


def not_as_most(
    leaf: LeafOverRanks, of: Of, ranks: Collection[int] | None = None
) -> tuple[list[int], list[int]]:
    """The ranks that hold the same numbers, if those are most, and the others; both ascending."""
    key = of, None if ranks is None else frozenset(ranks)
    if key not in leaf.not_as_most:
        leaf.not_as_most[key] = _not_as_most(_among(leaf, of, ranks))
    return leaf.not_as_most[key]


def _not_as_most(known: Sequence[tuple[int, _Summary]]) -> tuple[list[int], list[int]]:
    most: list[int] = []
    for _, first in known[:_MOST_TRIED]:
        alike = [rank for rank, summary in known if _are_same(first, summary)]
        most = max(most, alike, key=len)
    same_there = {*most}
    odd = [rank for rank, _ in known if rank not in same_there]
    return (most, odd) if len(odd) < len(most) else ([], [])


def _among(
    leaf: LeafOverRanks, of: Of, ranks: Collection[int] | None
) -> list[tuple[int, _Summary]]:
    known = leaf.known(of).items()
    return [(rank, summary) for rank, summary in known if ranks is None or rank in ranks]


def same(first: StatisticsModel, other: StatisticsModel) -> bool:
    """Return whether two tensors have the same statistics."""
    return first == other or _are_same(_summary(first), _summary(other))


def _summary(found: StatisticsModel) -> _Summary:
    numbers = found["norm"], found["mean"], found["min"], found["max"]
    return found["shape"], tuple(map(number_of, numbers))


def _are_same(first: _Summary, other: _Summary) -> bool:
    if first == other:
        return True
    if first[0] != other[0]:
        return False
    room = _SAME * finite(first[1][0])
    for a, b in zip(first[1], other[1], strict=True):
        if a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b)):
            continue
        if a is None or b is None or not abs(a - b) <= room:
            return False
    return True


def number_of(value: JsonNumber | None) -> float | None:
    """Convert a JSON number to a float; None if unknown."""
    try:
        return None if value is None else float(value)
    except ValueError:  # a complex one
        return None


def norm_of(found: StatisticsModel | None) -> float | None:
    """The norm of a tensor, if it is known."""
    return None if found is None else number_of(found["norm"])


def finite(number: float | None) -> float:
    """Return the number, or 0 if it is not finite or None."""
    return number if number is not None and math.isfinite(number) else 0.0


def is_not_finite(found: StatisticsModel | None) -> bool:
    """Return whether it has NaN or infinities."""
    return found is not None and bool(found["nan"] or found["inf"])


def norms_in_words(leaf: LeafOverRanks, of: Of) -> str:
    """The norms of a leaf on the ranks, the first of many."""
    norms_on = [
        f"{norm:.6g} on rank {rank}"
        for rank, each in sorted(leaf.on.items())
        if (norm := norm_of(of(each))) is not None
    ]
    return f"the norm of {leaf.name} is {list_some(norms_on)}"


def leaves_in_words(leaves: Sequence[LeafOverRanks]) -> str:
    """List the first leaves, grouped by line."""
    lines: dict[str, list[str]] = {}
    for leaf in leaves[:MOST_LISTED]:
        lines.setdefault(leaf.at, []).append(leaf.name)
    more = f" and {len(leaves) - MOST_LISTED} more" if len(leaves) > MOST_LISTED else ""
    return "; ".join(f"{list_some(names)}{at}" for at, names in lines.items()) + more


def nodes_of(leaves: Iterable[LeafOverRanks]) -> list[int]:
    """The nodes of leaves that the shown graph has."""
    return [leaf.node for leaf in leaves if leaf.node is not None]


def as_ranks(ranks: Sequence[int]) -> str:
    """Return ranks in words: "rank 1", "ranks 0 and 2"."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {list_some([str(rank) for rank in ranks])}"
