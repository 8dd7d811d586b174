"""Which ranks are stages of a pipeline, told by what their files say alone.

A stage is handed the output of the one before as a leaf, and sends its gradient back, from which
backward starts there. Where the gradient that one rank's backward started from is what arrived at
an unnamed leaf of another, the two are the ends of one tie.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...schema import JsonNumber
from ...schema.ranks import RankLeafModel, RankModel, StatisticsModel


@dataclass(frozen=True)
class Tie:
    """An output of one rank that another was handed.

    Attributes:
        rank: Whose output it is.
        node: The node that made it there.
        output_nr: Which of its outputs it is.
        to_rank: Who was handed it.
        leaf: The leaf that it became there.
        is_likely: Whether not all of their gradients was compared: statistics alone were kept.
    """

    rank: int
    node: int
    output_nr: int
    to_rank: int
    leaf: int
    is_likely: bool = False


_ALIKE = 1e-9
"""The same numbers may be added up in another order, in double precision."""


def ties_among(ranks: Sequence[RankModel]) -> list[Tie]:
    """The ends of stages that belong together.

    Each output and each leaf is tied once: where ranks had the same batch it does not matter which
    of them is taken. One number alone is too little to tell, and so is a gradient that is the same
    everywhere, such as the ones that a sum sends back.

    Args:
        ranks: What the ranks say.

    Returns:
        Ties that lead in no circle; none where ranks are no stages, or where they were not saved
        after the backward of one micro-batch.
    """
    leaves: dict[tuple[object, ...], list[tuple[float, int, RankLeafModel, StatisticsModel]]]
    leaves = defaultdict(list)
    for said in ranks:
        for leaf in said["leaves"]:
            local = leaf["local"]
            if leaf["name"] is None and local is not None and (norm := _telling_norm(local)):
                leaves[_kind(local)].append((norm, said["rank"], leaf, local))
    for near in leaves.values():
        near.sort(key=lambda each: (each[0], each[1], each[2]["node"]))
    found = []
    for said in ranks:
        for output in said["outputs"]:
            sent = output["grad"]
            norm = None if sent is None else _telling_norm(sent)
            if sent is None or norm is None:
                continue
            near = leaves.get(_kind(sent), [])
            start = bisect_left(near, norm * (1 - _ALIKE), key=lambda each: each[0])
            end = bisect_right(near, norm * (1 + _ALIKE), key=lambda each: each[0])
            for i in range(start, end):
                _, rank, leaf, local = near[i]
                orders = output["order"], leaf["order"]
                if rank == said["rank"] or not _is_alike(sent, local, orders, norm):
                    continue
                place = output["node"], output["output_nr"]
                found.append(Tie(said["rank"], *place, rank, leaf["node"], None in orders))
                del near[i]
                break
    return found if _depths(found) is not None else []


def chain_of(rank: int, ties: Iterable[Tie]) -> list[int]:
    """A rank and those that are tied to it, directly or not: the last stages first.

    Args:
        rank: Any rank.
        ties: As `ties_among` gave them.
    """
    near: dict[int, set[int]] = defaultdict(set)
    for tie in ties:
        near[tie.rank].add(tie.to_rank)
        near[tie.to_rank].add(tie.rank)
    found = [rank]
    for each in found:  # grows while we walk
        found += sorted(near[each] - set(found))
    depths = depths_of(ties)
    return sorted(found, key=lambda each: (depths.get(each, 0), each))


def received_by(rank: int, ties: Iterable[Tie]) -> list[int]:
    """The leaves of a rank that others sent, in the order of what made them there."""
    found = [tie for tie in ties if tie.to_rank == rank]
    return [tie.leaf for tie in sorted(found, key=lambda tie: (tie.node, tie.output_nr))]


def depths_of(ties: Iterable[Tie]) -> dict[int, int]:
    """By rank that is tied, how many stages come after its own."""
    return _depths(ties) or {}


def _depths(ties: Iterable[Tie]) -> dict[int, int] | None:
    """The same; None where ties lead in a circle."""
    takers: dict[int, set[int]] = defaultdict(set)
    provenance: dict[int, set[int]] = defaultdict(set)
    for tie in ties:
        takers[tie.rank].add(tie.to_rank)
        provenance[tie.to_rank].add(tie.rank)
    waiting = {rank: len(after) for rank, after in takers.items()}
    found = dict.fromkeys(sorted(provenance.keys() - takers.keys()), 0)
    order = list(found)
    for rank in order:  # grows while we walk
        for giver in sorted(provenance[rank]):
            found[giver] = max(found.get(giver, 0), found[rank] + 1)
            waiting[giver] -= 1
            if waiting[giver] == 0:
                order.append(giver)
    return found if len(order) == len(takers.keys() | provenance.keys()) else None


def stages_of(ranks: Sequence[RankModel], ties: Sequence[Tie]) -> dict[int, int]:
    """By rank the number of a set of ranks that do the same: of replicas, or of one stage.

    Tied ranks are of one set where as many stages come after them; the others where their leaves
    have names in common.

    Args:
        ranks: What the ranks say.
        ties: Those among them.

    Returns:
        Numbers; those of tied ranks count the stages that come after.
    """
    depths = depths_of(ties)
    first = several = max(depths.values(), default=-1) + 1
    found: dict[int, int] = {}
    by_name: dict[str, int] = {}
    for said in ranks:
        rank = said["rank"]
        if rank in depths:
            found[rank] = depths[rank]
            continue
        names = [leaf["name"] for leaf in said["leaves"] if leaf["name"] is not None]
        known = next((by_name[name] for name in names if name in by_name), None)
        if known is None:
            known = several if names else first
            several = max(several, known + 1)
        found[rank] = known
        for name in names:
            by_name.setdefault(name, known)
    return found


def _kind(found: StatisticsModel) -> tuple[object, ...]:
    return tuple(found["shape"]), found["dtype"]


def _telling_norm(found: StatisticsModel) -> float | None:
    """The norm of a gradient that can be told from others; None for any other."""
    norm = found["norm"]
    if not isinstance(norm, (int, float)) or norm == 0 or found["numel"] < 2:
        return None
    if found["min"] is not None and found["min"] == found["max"]:
        return None
    return float(norm)


def _is_alike(
    one: StatisticsModel,
    other: StatisticsModel,
    orders: tuple[JsonNumber | None, JsonNumber | None],
    norm: float,
) -> bool:
    """Whether two hold the same numbers, whatever order they were added up in."""
    pairs = [(one["min"], other["min"]), (one["max"], other["max"]), (one["mean"], other["mean"])]
    if None not in orders:
        pairs.append(orders)
    return all(
        a == b
        or (
            isinstance(a, (int, float))
            and isinstance(b, (int, float))
            and abs(a - b) <= _ALIKE * norm
        )
        for a, b in pairs
    )
