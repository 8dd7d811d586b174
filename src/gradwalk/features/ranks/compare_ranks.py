"""Findings that compare the leaves of all ranks of a run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from ...checks.finding import Finding
from ...english import list_some, plural
from ...schema.ranks import RankModel
from .leaf_over_ranks import (
    LeafOverRanks,
    finite,
    in_words,
    is_not_finite,
    leaves_in_words,
    nodes_of,
    norm_of,
)
from .replicas import are_replicas, drifted, not_alike, not_reduced, same_batch

MUCH_LARGER = 100.0
"""A gradient is large if its norm is this many times the median of the other ranks."""


def findings_over_ranks(
    ranks: Sequence[RankModel], leaves: Sequence[LeafOverRanks], apart: Sequence[int] = ()
) -> list[Finding]:
    """Find problems between the ranks of a run, the most severe first.

    Args:
        ranks: The ranks.
        leaves: Their leaves, side by side, those nearest to the output first.
        apart: Ranks whose graphs have nothing in common with the one that is shown.

    Returns:
        Findings; none where the ranks agree in what they must agree in.
    """
    found = [
        *_of_leaves(ranks, leaves, are_replicas(leaves)),
        *_large(leaves),
        *same_batch(leaves),
        *(Finding("ranks", "warning", [], sentence) for sentence in incomplete(ranks, apart)),
    ]
    return sorted(found, key=lambda each: ["error", "warning", "info"].index(each.severity))


def about_leaf(ranks: Sequence[RankModel], leaf: LeafOverRanks, are_copies: bool) -> str:
    """Join the findings on one leaf between the ranks; "" for none.

    Args:
        ranks: The ranks.
        leaf: The leaf on all of them.
        are_copies: Whether they hold the same weights, see `gradwalk.features.ranks.replicas`.
    """
    return " ".join(each.message for each in _of_leaves(ranks, [leaf], are_copies))


def _of_leaves(
    ranks: Sequence[RankModel], leaves: Sequence[LeafOverRanks], are_copies: bool
) -> Iterator[Finding]:
    """Yield the findings that need one leaf at a time."""
    yield from _not_finite(leaves)
    yield from drifted(leaves)
    yield from not_reduced(leaves, are_copies)
    yield from not_alike(leaves)
    yield from _unused(ranks, leaves)


def incomplete(ranks: Sequence[RankModel], apart: Sequence[int] = ()) -> list[str]:
    """Describe missing files, other versions and missing passes.

    Args:
        ranks: The ranks.
        apart: Ranks whose graphs have nothing in common with the one that is shown.
    """
    found = []
    world = ranks[0]["world_size"]
    missing = sorted({*range(world)} - {each["rank"] for each in ranks})
    if missing:
        found.append(
            f"The file of {in_words(missing)} of {world} is missing: sentences about all ranks "
            f"leave {'it' if len(missing) == 1 else 'them'} out."
        )
    versions = sorted({each["torch_version"] for each in ranks})
    if len(versions) > 1:
        on = (
            f"{version} on {in_words([r['rank'] for r in ranks if r['torch_version'] == version])}"
            for version in versions
        )
        found.append(f"The ranks ran with different versions of torch: {list_some(list(on))}.")
    if apart:
        found.append(
            f"The graph of {in_words(apart)} has no parameter in common with the one that is "
            f"shown, so it is not in this picture: load it with rank={apart[0]}. If the ranks are "
            "stages of a pipeline, save each with gradwalk.save(..., stage=)."
        )
    early = [each["rank"] for each in ranks if not each["recorded"]]
    if early:
        found.append(
            f"The file of {in_words(early)} holds no backward pass, so no local gradient is known "
            "there: make a GraphWidget before backward(), and save that."
        )
    return found


def _unused(ranks: Sequence[RankModel], leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    recorded = [each["rank"] for each in ranks if each["recorded"]]
    groups: dict[tuple[bool, tuple[int, ...], tuple[int, ...]], list[LeafOverRanks]] = {}
    for leaf in leaves:
        used = [r for r in recorded if r in leaf.on and leaf.on[r]["local"] is not None]
        unused = sorted((leaf.among & {*recorded}) - {*used})
        if used and unused:
            is_there = all(r in leaf.on for r in unused)
            groups.setdefault((is_there, tuple(unused), tuple(used)), []).append(leaf)
    for (is_there, without, having), group in groups.items():
        it = "it" if len(group) == 1 else "them"
        why = (
            f"backward did not reach {it} there"
            if is_there
            else f"the graph there lacks {it}, {_branch_of(group[0], it)}"
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
            nodes_of(group),
            f"{leaves_in_words(group)} got no gradient on {in_words(without)}, and "
            f"did on {in_words(having)}: {why}.{waits}",
            {"ranks": len(without), "parameters": len(group)},
        )


def _branch_of(leaf: LeafOverRanks, it: str) -> str:
    """The branch that may have left it out."""
    branch = next((each["branch"] for each in leaf.on.values() if each["branch"]), None)
    if branch is None:
        return f"as when a branch of the forward pass leaves {it} out"
    return (
        f"as when `{branch['text']}` at {branch['file']}:{branch['line']}, under which that line "
        "stands, goes the other way"
    )


def _not_finite(leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    """Find sets of ranks with NaN or infinities that the other ranks do not have."""
    groups: dict[tuple[int, ...], list[LeafOverRanks]] = {}
    for leaf in leaves:
        known = [rank for rank, each in leaf.on.items() if each["local"] is not None]
        odd = tuple(rank for rank in known if is_not_finite(leaf.on[rank]["local"]))
        if odd and len(odd) < len(known):
            groups.setdefault(odd, []).append(leaf)
    for odd, group in groups.items():
        first = group[0]
        local = first.on[odd[0]]["local"]
        assert local is not None
        what = f"{local['nan']} NaN" if local["nan"] else f"{local['inf']} infinite numbers"
        more = f", as have {plural(len(group) - 1, 'more gradient')} there" if group[1:] else ""
        yield Finding(
            "nan on a rank",
            "error",
            nodes_of(group),
            f"The local gradient of {first.words} has {what} on {in_words(odd)}, and none on the "
            f"other ranks{more}. Reducing brings it to all of them. The file of rank {odd[0]} "
            f"shows where it began: load it with rank={odd[0]}, and diagnose.",
            {"rank": odd[0], "gradients": len(group)},
        )


def _large(leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    """Find ranks whose local gradients are far larger than on the other ranks."""
    totals: dict[int, float] = {}
    among: dict[int, frozenset[int]] = {}
    for leaf in leaves:
        for rank, each in leaf.on.items():
            among[rank] = leaf.among
            norm = norm_of(each["local"])
            if norm is not None and math.isfinite(norm):
                totals[rank] = math.hypot(totals.get(rank, 0.0), norm)
    for rank, total in totals.items():
        others = [totals[other] for other in among[rank] - {rank} if other in totals]
        middle = statistics.median(others) if others else 0.0
        if middle <= 0 or total < MUCH_LARGER * middle:
            continue
        most = max(
            (leaf for leaf in leaves if rank in leaf.on),
            key=lambda leaf: finite(norm_of(leaf.on[rank]["local"])),
        )
        yield Finding(
            "large on a rank",
            "warning",
            most.nodes,
            f"The local gradients of rank {rank} are {total / middle:,.4g} times as large as "
            f"on the other ranks: the norm is {total:.4g}, and their median is {middle:.4g}. "
            f"The largest is at {most.words}. Check the batch of this rank.",
            {"rank": rank, "norm": total, "others": middle},
        )
