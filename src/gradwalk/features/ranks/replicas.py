"""Findings about tensors that should be equal on several ranks, or should differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...checks.finding import Finding
from ...schema.ranks import StatisticsModel
from .leaf_over_ranks import (
    LeafOverRanks,
    Of,
    differ,
    in_words,
    leaves_in_words,
    local_of,
    nodes_of,
    norms_in_words,
    others_than_most,
    reduced_of,
    same,
    value_of,
)


def are_replicas(leaves: Sequence[LeafOverRanks]) -> bool:
    """Return whether ranks hold the same weights, and not just the same constants."""
    telling = [
        leaf
        for leaf in leaves
        if len(leaf.on) > 1
        and not leaf.is_placed
        and all(
            (value := each["value"]) is not None and value["min"] != value["max"]
            for each in leaf.on.values()
        )
    ]
    return any(not differ(leaf, value_of) for leaf in telling)


def drifted(leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    """Find weights that should be equal on all ranks and differ.

    They should be equal under DistributedDataParallel, by placement, or if gradients are averaged.
    """
    apart = [leaf for leaf in leaves if leaf.is_under_ddp and differ(leaf, value_of)]
    if apart:
        yield Finding(
            "drifted",
            "error",
            nodes_of(apart),
            f"DistributedDataParallel keeps weights the same on all ranks, but "
            f"{leaves_in_words(apart)} are not: "
            f"{norms_in_words(apart[0], value_of)}.{others_than_most(apart[0], value_of)} "
            "They were changed on some ranks alone, after the model was wrapped.",
            {"parameters": len(apart)},
        )
    apart = [leaf for leaf in leaves if any(differ(leaf, value_of, r) for r in _copies(leaf))]
    if apart:
        yield Finding(
            "drifted",
            "error",
            nodes_of(apart),
            f"By their placement (R) {leaves_in_words(apart)} are the same on "
            f"several ranks, but they are not: {norms_in_words(apart[0], value_of)}."
            f"{_others(apart[0], value_of)} torch relies on it. Make them with distribute_tensor(),"
            " or from the same seed, and change them in the same way everywhere.",
            {"parameters": len(apart)},
        )
    apart = [leaf for leaf in leaves if _is_averaged(leaf) and differ(leaf, value_of)]
    if apart:
        yield Finding(
            "drifted",
            "error",
            nodes_of(apart),
            f"The .grad of {leaves_in_words(apart)} is the same on all ranks, and what arrived "
            "there is not, so it was reduced, as among copies of one model. But the weights are "
            f"not the same: {norms_in_words(apart[0], value_of)}."
            f"{others_than_most(apart[0], value_of)} Start from the same seed on every rank, or "
            "broadcast the weights of one.",
            {"parameters": len(apart)},
        )


def _is_averaged(leaf: LeafOverRanks) -> bool:
    """Whether a gradient was reduced by unknown code."""
    return (
        all(each["parallel"] is None and each["copies"] is None for each in leaf.on.values())
        and len(leaf.known(reduced_of)) == len(leaf.on) > 1
        and any(told[1][0] for told in leaf.known(reduced_of).values())
        and not differ(leaf, reduced_of)
        and differ(leaf, local_of)
    )


def not_reduced(leaves: Sequence[LeafOverRanks], are_copies: bool) -> Iterator[Finding]:
    """Find gradients that differ because they were not reduced.

    Args:
        leaves: The leaves on all ranks.
        are_copies: Whether the ranks hold the same weights.
    """
    apart = [
        leaf
        for leaf in leaves
        if (leaf.is_under_ddp or (are_copies and not differ(leaf, value_of)))
        and not leaf.is_placed
        and all(each["parallel"] != "FSDP2" for each in leaf.on.values())
        and differ(leaf, reduced_of)
    ]
    for is_wrapped in (True, False):
        group = [leaf for leaf in apart if leaf.is_under_ddp == is_wrapped]
        if not group:
            continue
        own = all(
            each["local"] is not None
            and each["reduced"] is not None
            and same(each["local"], each["reduced"])
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
            "optimizer's step. (If it is wrapped, no_sync() was on, or these were left out.)"
        )
        yield Finding(
            "not reduced",
            "warning" if is_wrapped else "error",
            nodes_of(group),
            f"The weights are the same on all ranks, but the .grad of "
            f"{leaves_in_words(group)} is not: "
            f"{norms_in_words(group[0], reduced_of)}.{others_than_most(group[0], reduced_of)} "
            f"{told}{cause} A step of the optimizer would let the weights drift apart.",
            {"parameters": len(group)},
        )


def not_alike(leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    """Find gradients that should be equal by their placement and differ."""
    apart = [leaf for leaf in leaves if any(differ(leaf, reduced_of, r) for r in _copies(leaf))]
    if apart:
        yield Finding(
            "not alike",
            "error",
            nodes_of(apart),
            f"By its placement (R) the .grad of {leaves_in_words(apart)} is the "
            f"same on several ranks, but it is not: {norms_in_words(apart[0], reduced_of)}."
            f"{_others(apart[0], reduced_of)} Nothing is sent for what is placed so, so these "
            "ranks computed it from other numbers: from another batch, or with random numbers of "
            "another seed, as in dropout. A step of the optimizer would let the weights drift "
            "apart.",
            {"parameters": len(apart)},
        )


def same_batch(leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    """Find ranks whose gradients are averaged but were already equal."""
    ours = [leaf for leaf in leaves if any(each["parallel"] for each in leaf.on.values())]
    if any(len(ranks) > 1 for leaf in ours for ranks in _copies(leaf)):
        return  # under tensor parallel ranks have the same batch
    groups: dict[tuple[object, ...], list[int]] = {}
    for rank in sorted({rank for leaf in ours for rank in leaf.on}):
        locals_ = [_arrived(leaf, rank) for leaf in ours]
        if any(found is not None and found["norm"] not in (None, 0) for found in locals_):
            groups.setdefault(tuple(map(_fingerprint, locals_)), []).append(rank)
    for ranks in groups.values():
        if len(ranks) > 1:
            theirs = [leaf for leaf in ours if _arrived(leaf, ranks[0]) is not None]
            yield Finding(
                "same batch",
                "warning",
                nodes_of(theirs),
                f"The local gradients of {in_words(ranks)} are the very same, as far as their "
                f"statistics tell, for all {len(theirs)} parameters: most likely these "
                "ranks had the same batch, so that averaging their gradients gains nothing. Give "
                "each rank its own part of the data, as with DistributedSampler.",
                {"ranks": len(ranks)},
            )


def _arrived(leaf: LeafOverRanks, rank: int) -> StatisticsModel | None:
    """The local gradient on a rank; None without one, or without the leaf."""
    return local_of(leaf.on[rank]) if rank in leaf.on else None


def _fingerprint(found: StatisticsModel | None) -> tuple[object, ...]:
    if found is None:
        return ()
    return found["norm"], found["mean"], found["min"], found["max"]


def _copies(leaf: LeafOverRanks) -> list[frozenset[int]]:
    """Sets of several ranks that hold the same part of a leaf by its placement."""
    found = {frozenset(each["copies"]) for each in leaf.on.values() if each["copies"] is not None}
    return [ranks for ranks in found if len(ranks) > 1]


def _others(leaf: LeafOverRanks, of: Of) -> str:
    told = (others_than_most(leaf, of, r) for r in _copies(leaf) if differ(leaf, of, r))
    return next(told, "")
