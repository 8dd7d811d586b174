"""Findings that compare the leaves of all ranks of a run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from ...checks.finding import Finding
from ...english import list_some, plural
from ...result import make
from ...schema.findings import FindingKind, Severity
from ...schema.ranks import RankModel, StatisticsModel
from .leaf_over_ranks import (
    LeafOverRanks,
    Of,
    as_ranks,
    differ,
    finite,
    is_not_finite,
    leaves_in_words,
    local_of,
    nodes_of,
    norm_of,
    norms_in_words,
    others_than_most,
    reduced_of,
    same,
    value_of,
)


def are_replicas(leaves: Sequence[LeafOverRanks]) -> bool:
    """Return whether ranks hold the same weights, and not just the same constants."""
    several = (leaf for leaf in leaves if len(leaf.on) > 1 and not leaf.is_placed)
    return any(
        all((v := each["value"]) and v["min"] != v["max"] for each in leaf.on.values())
        and not differ(leaf, value_of)
        for leaf in several
    )


def are_of_several_steps(ranks: Sequence[RankModel]) -> bool:
    """Return whether each parameter under DDP was changed more often on one rank than another."""
    counts = [
        {leaf["name"]: leaf["changes"] for leaf in each["leaves"] if leaf["parallel"] == "DDP"}
        for each in ranks
    ]
    pairs = [
        [(counts[0][name], other[name]) for name in counts[0].keys() & other.keys() - {None}]
        for other in counts[1:]
    ]
    return any(
        each and all(None not in pair and pair[0] != pair[1] for pair in each) for each in pairs
    )


def _found(
    kind: FindingKind, severity: Severity, leaves: Sequence[LeafOverRanks], message: str
) -> Finding:
    return make(Finding, kind, severity, nodes_of(leaves), message, {"parameters": len(leaves)})


def drifted(leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    """Find weights that should be equal on all ranks, as under DDP, and differ."""
    apart = [leaf for leaf in leaves if leaf.is_under_ddp and differ(leaf, value_of)]
    if apart:
        message = (
            f"DistributedDataParallel keeps weights the same on all ranks, but "
            f"{leaves_in_words(apart)} are not: "
            f"{norms_in_words(apart[0], value_of)}.{others_than_most(apart[0], value_of)} "
            "They were changed on some ranks alone, after the model was wrapped."
        )
        yield _found("drifted", "error", apart, message)
    apart = [leaf for leaf in leaves if any(differ(leaf, value_of, r) for r in _copies(leaf))]
    if apart:
        message = (
            f"By their placement (R) {leaves_in_words(apart)} are the same on "
            f"several ranks, but they are not: {norms_in_words(apart[0], value_of)}."
            f"{_others(apart[0], value_of)} torch relies on it. Make them with distribute_tensor(),"
            " or from the same seed, and change them in the same way everywhere."
        )
        yield _found("drifted", "error", apart, message)
    apart = [leaf for leaf in leaves if _is_averaged(leaf) and differ(leaf, value_of)]
    if apart:
        message = (
            f"The .grad of {leaves_in_words(apart)} is the same on all ranks, and what arrived "
            "there is not, so it was reduced, as among copies of one model. But the weights are "
            f"not the same: {norms_in_words(apart[0], value_of)}."
            f"{others_than_most(apart[0], value_of)} Start from the same seed on every rank, or "
            "broadcast the weights of one."
        )
        yield _found("drifted", "error", apart, message)


def _is_averaged(leaf: LeafOverRanks) -> bool:
    """Whether a gradient was reduced by unknown code."""
    return (
        all(each["parallel"] is None and each["copies"] is None for each in leaf.on.values())
        and len(leaf.known(reduced_of)) == len(leaf.on) > 1
        and any(summary[1][0] for summary in leaf.known(reduced_of).values())
        and not differ(leaf, reduced_of)
        and differ(leaf, local_of)
    )


_SAME_WEIGHTS = "The weights are the same on all ranks, "
_UNREDUCED = {
    True: "no_sync() was on, or backward ran through the module inside of "
    "DistributedDataParallel. If more passes are to be added up first, the last one must be "
    "outside of no_sync().",
    False: "wrap the model in DistributedDataParallel, or all-reduce each .grad before the "
    "optimizer's step. (If it is wrapped, no_sync() was on, or these were left out.)",
}
"""By whether a model is wrapped in DistributedDataParallel: why a gradient was not reduced."""


def not_reduced(leaves: Sequence[LeafOverRanks], are_copies: bool) -> Iterator[Finding]:
    """Find gradients that differ because they were not reduced."""
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
        pairs = [(e["local"], e["reduced"]) for leaf in group for e in leaf.on.values()]
        own = all(local and reduced and same(local, reduced) for local, reduced in pairs)
        detail = "It was not reduced, or something was added to it since: "
        if own:
            detail = "On each rank it is what arrived there, so nothing was reduced: "
        cause = _UNREDUCED[is_wrapped]
        weights = "" if any(differ(leaf, value_of) for leaf in group) else _SAME_WEIGHTS
        start = "but the" if weights else "The"
        not_same = "is not" if weights else "is not the same on all ranks"
        message = (
            f"{weights}{start} .grad of {leaves_in_words(group)} {not_same}: "
            f"{norms_in_words(group[0], reduced_of)}.{others_than_most(group[0], reduced_of)} "
            f"{detail}{cause} A step of the optimizer would let the weights drift apart."
        )
        yield _found("not-reduced", "warning" if is_wrapped else "error", group, message)


def not_alike(leaves: Sequence[LeafOverRanks]) -> Iterator[Finding]:
    """Find gradients that should be equal by their placement and differ."""
    apart = [leaf for leaf in leaves if any(differ(leaf, reduced_of, r) for r in _copies(leaf))]
    if apart:
        message = (
            f"By its placement (R) the .grad of {leaves_in_words(apart)} is the "
            f"same on several ranks, but it is not: {norms_in_words(apart[0], reduced_of)}."
            f"{_others(apart[0], reduced_of)} torch sends nothing for this placement. These "
            "ranks computed it from other numbers: from another batch, or with random numbers of "
            "another seed, as in dropout. A step of the optimizer would let the weights drift "
            "apart."
        )
        yield _found("not-alike", "error", apart, message)


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
            message = (
                f"The local gradients of {as_ranks(ranks)} are the very same, as far as their "
                f"statistics tell, for all {len(theirs)} parameters: most likely these "
                "ranks had the same batch, so that averaging their gradients gains nothing. Give "
                "each rank its own part of the data, as with DistributedSampler."
            )
            nodes = nodes_of(theirs)
            yield make(Finding, "same-batch", "warning", nodes, message, {"ranks": len(ranks)})


def _arrived(leaf: LeafOverRanks, rank: int) -> StatisticsModel | None:
    """Return the local gradient on a rank; None without one, or without the leaf."""
    return local_of(leaf.on[rank]) if rank in leaf.on else None


def _fingerprint(found: StatisticsModel | None) -> tuple[object, ...]:
    return () if found is None else (found["norm"], found["mean"], found["min"], found["max"])


def _copies(leaf: LeafOverRanks) -> list[frozenset[int]]:
    """Return the sets of two or more ranks whose placement gives them the same part of a leaf."""
    found = {frozenset(each["copies"]) for each in leaf.on.values() if each["copies"] is not None}
    return [ranks for ranks in found if len(ranks) > 1]


def _others(leaf: LeafOverRanks, of: Of) -> str:
    sentences = (others_than_most(leaf, of, r) for r in _copies(leaf) if differ(leaf, of, r))
    return next(sentences, "")


MUCH_LARGER = 100.0
"""A gradient is large if its norm is this many times the median of the other ranks."""


def findings_over_ranks(
    ranks: Sequence[RankModel], leaves: Sequence[LeafOverRanks], apart: Sequence[int] = ()
) -> list[Finding]:
    """Find problems between the ranks of a run, the most severe first."""
    found = [
        *_of_leaves(ranks, leaves, are_replicas(leaves)),
        *_large(leaves),
        *same_batch(leaves),
        *(make(Finding, "ranks", "warning", [], sentence) for sentence in incomplete(ranks, apart)),
    ]
    return sorted(found, key=lambda each: ["error", "warning", "info"].index(each.severity))


def about_leaf(ranks: Sequence[RankModel], leaf: LeafOverRanks, are_copies: bool) -> str:
    """Join the findings on one leaf between the ranks; "" for none."""
    return " ".join(each.message for each in _of_leaves(ranks, [leaf], are_copies))


def _of_leaves(
    ranks: Sequence[RankModel], leaves: Sequence[LeafOverRanks], are_copies: bool
) -> Iterator[Finding]:
    """Yield the findings that need one leaf at a time."""
    yield from _not_finite(leaves)
    if are_of_several_steps(ranks):
        message = (
            "Every parameter was changed more often on some ranks than on others: the files are of "
            "different steps, or some ranks ran the optimizer alone. Save all ranks in the same "
            "step to compare their weights and gradients."
        )
        yield make(Finding, "ranks", "warning", [], message)
        yield from _unused(ranks, leaves)
        return
    yield from drifted(leaves)
    yield from not_reduced(leaves, are_copies)
    yield from not_alike(leaves)
    yield from _unused(ranks, leaves)


def incomplete(ranks: Sequence[RankModel], apart: Sequence[int] = ()) -> list[str]:
    """Describe missing files, other versions and missing passes."""
    found = []
    world = ranks[0]["world_size"]
    missing = sorted({*range(world)} - {each["rank"] for each in ranks})
    if missing:
        found.append(
            f"The file of {as_ranks(missing)} of {world} is missing: sentences about all ranks "
            f"leave {'it' if len(missing) == 1 else 'them'} out."
        )
    versions = sorted({each["torch_version"] for each in ranks})
    if len(versions) > 1:
        on = (
            f"{version} on {as_ranks([r['rank'] for r in ranks if r['torch_version'] == version])}"
            for version in versions
        )
        found.append(f"The ranks ran with different versions of torch: {list_some(list(on))}.")
    if apart:
        found.append(
            f"The graph of {as_ranks(apart)} has no parameter in common with the one that is "
            f"shown, so it is not in this picture: load it with rank={apart[0]}. If the ranks are "
            "stages of a pipeline, save each with gradwalk.save(..., stage=)."
        )
    early = [each["rank"] for each in ranks if not each["recorded"]]
    if early:
        found.append(
            f"The file of {as_ranks(early)} holds no backward pass, so no local gradient is known "
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
        why = f"backward did not reach {it} there"
        if not is_there:
            why = f"the graph there lacks {it}, {_branch_of(group[0], it)}"
        message = (
            f"{leaves_in_words(group)} got no gradient on {as_ranks(without)}, and "
            f"did on {as_ranks(having)}: {why}."
        )
        if any(leaf.is_under_ddp for leaf in group):
            message += (
                f" DistributedDataParallel then waits for {it}, unless it was made with "
                "find_unused_parameters=True."
            )
        numbers: dict[str, float] = {"ranks": len(without), "parameters": len(group)}
        yield make(Finding, "unused-on-rank", "warning", nodes_of(group), message, numbers)


def _branch_of(leaf: LeafOverRanks, it: str) -> str:
    """Say in a phrase which branch of the program may have left it out."""
    branch = next((each["branch"] for each in leaf.on.values() if each["branch"]), None)
    if branch is None:
        return f"as when a branch of the forward pass leaves {it} out"
    return (
        f"as when `{branch['text']}` at {branch['file']}:{branch['line']}, which encloses "
        "that line, goes the other way"
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
        message = (
            f"The local gradient of {first.words} has {what} on {as_ranks(odd)}, and none on the "
            f"other ranks{more}. Reducing brings it to all of them. The file of rank {odd[0]} "
            f"shows where it began: load it with rank={odd[0]}, and diagnose."
        )
        numbers: dict[str, float] = {"rank": odd[0], "gradients": len(group)}
        yield make(Finding, "nan-on-rank", "error", nodes_of(group), message, numbers)


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
        message = (
            f"The local gradients of rank {rank} are {total / middle:,.4g} times as large as "
            f"on the other ranks: the norm is {total:.4g}, and their median is {middle:.4g}. "
            f"The largest is at {most.words}. Check the batch of this rank."
        )
        numbers: dict[str, float] = {"rank": rank, "norm": total, "others": middle}
        yield make(Finding, "large-on-rank", "warning", nodes_of([most]), message, numbers)
