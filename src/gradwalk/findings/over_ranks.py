"""Findings over the ranks of one run: what each says of its leaves, laid side by side."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..wire.ranks import RankLeafModel, RankModel, StatisticsModel
from .evidence import counted, listed
from .finding import Finding

MUCH_LARGER = 100.0
"""So many times the middle one of the other ranks is a gradient that stands out."""

_SAME = 1e-5
"""Reduced gradients are the same bit for bit; weights may have been summed in another order."""


@dataclass(frozen=True)
class LeafOverRanks:
    """One leaf on all ranks.

    Attributes:
        name: What the program calls it.
        node: Its node in the graph that is shown; None where that rank lacks it.
        on: Rank -> what it is there; a rank whose graph lacks it is not among them.
        among: The ranks that should have it: all that do the same as those of ``on``.
    """

    name: str
    node: int | None
    on: Mapping[int, RankLeafModel]
    among: frozenset[int]

    @property
    def words(self) -> str:
        """Its name, and the line that uses it."""
        line = next((leaf["line"] for leaf in self.on.values() if leaf["line"]), None)
        if line is None:
            return self.name
        text = f" (`{line['text']}`)" if line["text"] else ""
        return f"{self.name} at {line['file']}:{line['line']}{text}"

    @property
    def nodes(self) -> list[int]:
        """Its node, if the graph that is shown has it."""
        return [] if self.node is None else [self.node]


def findings_over_ranks(
    ranks: Sequence[RankModel], leaves: Sequence[LeafOverRanks], apart: Sequence[int] = ()
) -> list[Finding]:
    """What may be wrong between the ranks of a run, the gravest first.

    Args:
        ranks: What the ranks say.
        leaves: Their leaves, side by side, those nearest to the output first.
        apart: Ranks whose graphs have nothing in common with the one that is shown.

    Returns:
        Findings; none where the ranks agree in what they must agree in.
    """
    found = [
        *_not_finite(leaves),
        *_drifted(leaves),
        *_not_reduced(leaves),
        *_unused(ranks, leaves),
        *_large(leaves),
        *(Finding("ranks", "warning", [], sentence) for sentence in incomplete(ranks, apart)),
    ]
    return sorted(found, key=lambda each: ["error", "warning", "info"].index(each.severity))


def incomplete(ranks: Sequence[RankModel], apart: Sequence[int] = ()) -> list[str]:
    """Sentences on what there is to say of the files of the ranks as such.

    Args:
        ranks: What the ranks say.
        apart: Ranks whose graphs have nothing in common with the one that is shown.
    """
    found = []
    world = ranks[0]["world_size"]
    missing = sorted({*range(world)} - {each["rank"] for each in ranks})
    if missing:
        found.append(
            f"There is no file of {in_words(missing)}, of the {world} ranks of this run: what is "
            "said of all ranks is said of the others."
        )
    versions = sorted({each["torch_version"] for each in ranks})
    if len(versions) > 1:
        on = (
            f"{version} on {in_words([r['rank'] for r in ranks if r['torch_version'] == version])}"
            for version in versions
        )
        found.append(f"The ranks ran with different versions of torch: {listed(list(on))}.")
    if apart:
        found.append(
            f"The graph of {in_words(apart)} has no parameter in common with the one that is "
            f"shown, so it is not in this picture: load it with rank={apart[0]}. Stages of a "
            "pipeline are shown as one where each saved the graph of the same micro-batch, after "
            "its backward."
        )
    early = [each["rank"] for each in ranks if not each["recorded"]]
    if early:
        found.append(
            f"The file of {in_words(early)} holds no backward pass, so no local gradient is known "
            "there: make a GraphWidget before backward(), and save that."
        )
    return found


def in_words(ranks: Sequence[int]) -> str:
    """Ranks as a sentence lists them: "rank 1", "ranks 0 and 2"."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {listed([str(rank) for rank in ranks])}"


def _unused(ranks: Sequence[RankModel], leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    recorded = [each["rank"] for each in ranks if each["recorded"]]
    groups: dict[tuple[bool, tuple[int, ...], tuple[int, ...]], list[LeafOverRanks]] = {}
    for leaf in leaves:
        used = [r for r in recorded if r in leaf.on and leaf.on[r]["local"] is not None]
        unused = [r for r in recorded if r in leaf.among and r not in used]
        if used and unused:
            is_there = all(r in leaf.on for r in unused)
            groups.setdefault((is_there, tuple(unused), tuple(used)), []).append(leaf)
    for (is_there, without, having), group in groups.items():
        it = "it" if len(group) == 1 else "them"
        why = (
            f"backward did not reach {it} there"
            if is_there
            else f"the graph there lacks {it}, as when a branch of the forward pass leaves {it} out"
        )
        wrapped = any(each["parallel"] == "DDP" for leaf in group for each in leaf.on.values())
        waits = (
            f" DistributedDataParallel then waits for {it}, unless it was made with "
            "find_unused_parameters=True."
            if wrapped
            else ""
        )
        yield Finding(
            "unused on a rank",
            "warning",
            [node for leaf in group for node in leaf.nodes],
            f"{listed([leaf.words for leaf in group])} got no gradient on {in_words(without)}, and "
            f"did on {in_words(having)}: {why}.{waits}",
            {"ranks": len(without), "parameters": len(group)},
        )


def _not_finite(leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    """Of each set of ranks with NaN or infinities, which the other ranks do not have."""
    groups: dict[tuple[int, ...], list[LeafOverRanks]] = {}
    for leaf in leaves:
        known = [rank for rank, each in leaf.on.items() if each["local"] is not None]
        odd = tuple(rank for rank in known if _odd(leaf.on[rank]["local"]))
        if odd and len(odd) < len(known):
            groups.setdefault(odd, []).append(leaf)
    for odd, group in groups.items():
        first = group[0]
        local = first.on[odd[0]]["local"]
        assert local is not None
        what = f"{local['nan']} NaN" if local["nan"] else f"{local['inf']} infinite numbers"
        more = f", as have {counted(len(group) - 1, 'more gradient')} there" if group[1:] else ""
        yield Finding(
            "nan on a rank",
            "error",
            [node for leaf in group for node in leaf.nodes],
            f"The local gradient of {first.words} has {what} on {in_words(odd)}, and none on the "
            f"other ranks{more}. Reducing brings it to all of them. The file of rank {odd[0]} "
            f"shows where it began: load it with rank={odd[0]}, and diagnose.",
            {"rank": odd[0], "gradients": len(group)},
        )


def _drifted(leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    """Weights under DDP that are not the same."""
    apart = [leaf for leaf in leaves if _is_under_ddp(leaf) and _differ(leaf, _value)]
    if apart:
        yield Finding(
            "drifted",
            "error",
            [node for leaf in apart for node in leaf.nodes],
            f"DistributedDataParallel keeps weights the same on all ranks, but "
            f"{listed([leaf.words for leaf in apart])} are not: {_norms(apart[0], _value)}. "
            "They were changed on some ranks alone, after the model was wrapped.",
            {"parameters": len(apart)},
        )


def _not_reduced(leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    """Gradients that must agree, and do not."""
    replicated = _are_replicas(leaves)
    apart = [
        leaf
        for leaf in leaves
        if (_is_under_ddp(leaf) or (replicated and not _differ(leaf, _value)))
        and all(each["parallel"] != "FSDP2" for each in leaf.on.values())
        and _differ(leaf, _reduced)
    ]
    for is_wrapped in (True, False):
        group = [leaf for leaf in apart if _is_under_ddp(leaf) == is_wrapped]
        if not group:
            continue
        own = all(
            each["local"] is not None
            and each["reduced"] is not None
            and _same(each["local"], each["reduced"])
            for leaf in group
            for each in leaf.on.values()
        )
        told = (
            "On each rank it is what arrived there, so nothing was reduced: "
            if own
            else "It was not reduced, or something was added to it since: "
        )
        cause = (
            "no_sync() was on, or backward ran through the module inside of "
            "DistributedDataParallel. If more passes are to be added up first, the last one must "
            "be outside of no_sync()."
            if is_wrapped
            else "wrap the model in DistributedDataParallel, or all-reduce each .grad before the "
            "optimizer's step."
        )
        yield Finding(
            "not reduced",
            "warning" if is_wrapped else "error",
            [node for leaf in group for node in leaf.nodes],
            f"The weights are the same on all ranks, but the .grad of "
            f"{listed([leaf.words for leaf in group])} is not: {_norms(group[0], _reduced)}. "
            f"{told}{cause} A step of the optimizer would let the weights drift apart.",
            {"parameters": len(group)},
        )


def _large(leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    """Ranks whose local gradients are far larger than those of the others."""
    totals: dict[int, float] = {}
    among: dict[int, frozenset[int]] = {}
    for leaf in leaves:
        for rank, each in leaf.on.items():
            among[rank] = leaf.among
            norm = _norm(each["local"])
            if norm is not None and math.isfinite(norm):
                totals[rank] = math.hypot(totals.get(rank, 0.0), norm)
    for rank, total in totals.items():
        others = [totals[other] for other in among[rank] - {rank} if other in totals]
        middle = statistics.median(others) if others else 0.0
        if middle <= 0 or total < MUCH_LARGER * middle:
            continue
        most = max(
            (leaf for leaf in leaves if rank in leaf.on),
            key=lambda leaf: _finite(_norm(leaf.on[rank]["local"])),
        )
        yield Finding(
            "large on a rank",
            "warning",
            most.nodes,
            f"The local gradients of rank {rank} are {total / middle:,.4g} times as large as those "
            f"of the others: their norm is {total:.4g}, and {middle:.4g} in the middle of the "
            f"other ranks. Most of it is at {most.words}. Look at the batch that this rank had.",
            {"rank": rank, "norm": total, "others": middle},
        )


_Of = Callable[[RankLeafModel], StatisticsModel | None]


def _value(leaf: RankLeafModel) -> StatisticsModel | None:
    return leaf["value"]


def _reduced(leaf: RankLeafModel) -> StatisticsModel | None:
    return leaf["reduced"]


def _is_under_ddp(leaf: LeafOverRanks) -> bool:
    return any(each["parallel"] == "DDP" for each in leaf.on.values())


def _are_replicas(leaves: Sequence[LeafOverRanks]) -> bool:
    """Whether the ranks hold the same weights, and not just the same constants."""
    telling = [
        leaf
        for leaf in leaves
        if len(leaf.on) > 1
        and all(
            (value := each["value"]) is not None and value["min"] != value["max"]
            for each in leaf.on.values()
        )
    ]
    return any(not _differ(leaf, _value) for leaf in telling)


def _differ(leaf: LeafOverRanks, of: _Of) -> bool:
    """Whether ranks that have it hold different numbers."""
    found = [each for each in map(of, leaf.on.values()) if each is not None]
    return not all(_same(found[0], other) for other in found[1:])


def _same(first: StatisticsModel, other: StatisticsModel) -> bool:
    """Whether two tensors hold the same numbers, as far as their statistics tell."""
    if first["shape"] != other["shape"]:
        return False
    numbers = ("norm", "mean", "min", "max")
    one, two = ([_number(each[name]) for name in numbers] for each in (first, other))  # type: ignore[literal-required]
    return all(
        a == b
        or (a is not None and b is not None and math.isnan(a) and math.isnan(b))
        or (a is not None and b is not None and abs(a - b) <= _SAME * _finite(one[0]))
        for a, b in zip(one, two, strict=True)
    )


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:  # a complex one
        return None


def _norm(found: StatisticsModel | None) -> float | None:
    return None if found is None else _number(found["norm"])


def _finite(number: float | None) -> float:
    return number if number is not None and math.isfinite(number) else 0.0


def _odd(found: StatisticsModel | None) -> bool:
    return found is not None and bool(found["nan"] or found["inf"])


def _norms(leaf: LeafOverRanks, of: _Of) -> str:
    """The norms of a leaf on the ranks, the first of many."""
    told = [
        f"{norm:.6g} on rank {rank}"
        for rank, each in sorted(leaf.on.items())
        if (norm := _norm(of(each))) is not None
    ]
    return f"the norm of {leaf.name} is {listed(told)}"
