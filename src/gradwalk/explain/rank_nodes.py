"""The sentences on nodes at which ranks exchange gradients, as far as the nodes tell."""

from __future__ import annotations

import torch
from torch.autograd.graph import Node

from ..torch_api.distributed import (
    Bucket,
    Crossing,
    Placed,
    Sharded,
    collective,
    crossing,
    is_sink,
    placed,
    reducing,
)

_MOST_NAMED = 6  # parameters of a group

_TO_LOCAL = (
    "to_local() took out this rank's part of a tensor that is shared out over the ranks, placed as "
    "{placed}. "
)
_FROM_LOCAL = (
    "from_local() made a tensor that is shared out over the ranks, placed as {placed}, of what "
    "each rank had. "
)
_REDISTRIBUTE = (
    "Redistributes a tensor that is shared out over the ranks: in forward it was placed as "
    "{placed}, and was then placed otherwise. "
)


def about_ranks(node: Node, arrived: torch.Tensor | None) -> str | None:
    """Describe what a node does with the gradients of other ranks; None if it does nothing."""
    group = reducing(node)
    if group is not None:
        return _about_reducing(list(group.names), group.ranks)
    if is_sink(node):
        return (
            "DistributedDataParallel put this node at the output of its module, to learn when "
            "backward begins. What arrives is passed on as it is."
        )
    came = placed(arrived)
    found = crossing(node, came)
    return None if found is None else _about_crossing(found, came)


def about_sharded(sharded: Sharded) -> str:
    """Describe what FSDP2 does with a parameter."""
    over = "" if sharded.ranks is None else f" from {_ranks(sharded.ranks)}"
    again = "" if sharded.is_freed_between is not True else ", and again for backward"
    return (
        f"FSDP2 gathered it, {sharded.full} in full,{over} for forward{again}; of it this rank "
        f"holds {sharded.part}."
    )


def about_bucket(bucket: Bucket) -> str:
    """In which bucket DistributedDataParallel reduces a gradient, and when it was ready."""
    told = []
    if bucket.number is not None:
        alone = "alone in it" if bucket.parameters == 1 else f"{bucket.parameters} parameters"
        told.append(
            f"reduced in bucket {bucket.number + 1} of {bucket.count} ({bucket.nbytes:,} bytes, "
            f"{alone})"
        )
    if bucket.ready is not None:
        told.append(f"ready as number {bucket.ready + 1} of {bucket.total}")
    if not told:
        return "DistributedDataParallel reduces its gradient."
    return (
        f"By the log of DistributedDataParallel its gradient is {' and '.join(told)}; torch writes "
        "that log when a forward pass begins, so it is of the passes before."
    )


def _about_crossing(found: Crossing, came: Placed | None) -> str:
    placed_as = f"{found.forward.words} on {_mesh(found.forward)}"
    if found.way == "to local":
        start = _TO_LOCAL.format(placed=placed_as)
        if found.backward is None:
            return f"{start}Backward makes such a tensor of the gradient of this rank's part."
        return (
            f"{start}Backward takes the gradient on each rank for its part of one placed as "
            f"{found.backward.words}, and sends nothing."
        )
    if found.way == "from local":
        start = _FROM_LOCAL.format(placed=placed_as)
        goal = "Backward passes on this rank's part of the gradient"
    else:
        start = _REDISTRIBUTE.format(placed=placed_as)
        goal = "Backward places the gradient"
        if found.backward is None:
            return (
                f"{start}{goal} so again, but for partial sums (P), which a gradient that is there "
                "as a whole does not become."
            )
    if found.backward is None:
        return f"{start}{goal}."
    end = f"{goal}{', placed' if found.way == 'from local' else ''} as {found.backward.words}"
    if came is None:
        return f"{start}{end}; what is sent for that depends on how it arrives."
    done = collective(came, found.backward)
    if done is None:
        return f"{start}{end}. It arrived placed as {came.words}."
    sent = f": {_with_article(done)}" if done else ", for which nothing is sent"
    return f"{start}{end}. It arrived placed as {came.words}{sent}."


def _about_reducing(names: list[str], ranks: int | None) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    over = "the ranks" if ranks is None else _ranks(ranks)
    return (
        f"FSDP2 put this node at the inputs of a module. When backward gets here, it reduces the "
        f"gradients of {shown}{more} over {over}, each of which keeps its part (a reduce-scatter), "
        "unless set_requires_gradient_sync(False) puts that off. What arrives is passed on as it "
        "is. A module whose inputs need no grad has no such node: there FSDP2 reduces when the "
        "whole pass ends."
    )


def _mesh(found: Placed) -> str:
    axes = [f"{name} ({_ranks(size)})" if name else _ranks(size) for name, size in found.mesh]
    return f"a mesh of {' × '.join(axes)}"


def _ranks(count: int) -> str:
    return f"{count} rank{'' if count == 1 else 's'}"


def _with_article(done: str) -> str:
    return f"{'an' if done.startswith('all') else 'a'} {done}"
