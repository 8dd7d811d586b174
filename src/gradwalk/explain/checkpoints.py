"""The sentences about checkpointed regions."""

from __future__ import annotations

from ..graph.labels import in_bytes
from ..tracing.checkpoint_regions import Region


def saves(size: int | None, *, is_all: bool) -> str:
    """Say how many bytes a region saves; empty if unknown."""
    if not size:
        return ""
    return f"saves {'' if is_all else 'at least '}{in_bytes(size)}"


def about_region(
    region: Region, size: int | None, inputs: int | None, *, is_all: bool, has_policy: bool
) -> str:
    """Describe a checkpointed region in backward.

    Args:
        region: The region.
        size: The bytes that it does not keep; None where that is not known.
        inputs: The bytes that it keeps instead; None likewise.
        is_all: Whether ``size`` is all, rather than the least that it can be.
        has_policy: Whether the program chooses what is kept nevertheless.
    """
    who = region.called or "this part"
    if region.is_reentrant:
        return (
            f"Checkpointed with use_reentrant=True: this node keeps what went into {who}, and its "
            f"backward runs {who} forward again, then a backward pass of its own through it. Its "
            "operations are not in the graph before that, so what they would keep is not known."
        )
    nested = "" if region.parent is None else " The checkpointed part around it runs again first."
    found = [f"Checkpointed: {who} runs forward again when backward gets here.{nested}"]
    if has_policy:
        found.append(
            "The program chooses what is kept all the same (context_fn), so what the rest would "
            "take is not known."
        )
    elif size:
        instead = f" (it keeps its inputs, {in_bytes(inputs)})" if inputs else ""
        least = "" if is_all else "at least "
        found.append(
            f"So {least}{in_bytes(size)} that its operations make and need for backward are not "
            f"kept until then{instead}."
        )
    if not region.is_exact:
        found.append(
            "Where it begins and ends is inferred: an operation that saves nothing tells only "
            "under watch() whether it belongs to it."
        )
    return " ".join(found)
