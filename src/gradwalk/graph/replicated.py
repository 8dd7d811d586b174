"""How DistributedDataParallel reduces gradients: in which buckets, as its own log has it.

The log is read, and nothing is put in its place: a model has one communication hook, the user's.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import Node
from torch.nn.parallel import DistributedDataParallel

from .nodes import custom_function


@dataclass(frozen=True)
class Bucket:
    """Where DistributedDataParallel reduces the gradient of one parameter.

    Attributes:
        number: Of the bucket, from 0 in the order in which they are reduced; None where the log
            does not tell.
        count: How many buckets there are.
        nbytes: Of the whole bucket.
        parameters: How many are in it.
        ready: Which gradient it was, from 0 in the order in which they were there; None before the
            log has one.
        total: How many gradients there were.
    """

    number: int | None
    count: int
    nbytes: int
    parameters: int
    ready: int | None
    total: int


def reduced(module: DistributedDataParallel) -> list[torch.nn.Parameter]:
    """The parameters whose gradients it reduces: not those that it was told to ignore."""
    ignored = getattr(module, "parameters_to_ignore", ())
    return [each for name, each in module.module.named_parameters() if name not in ignored]


def is_sink(node: Node) -> bool:
    """Whether DistributedDataParallel has put a node at the output of its module."""
    function = custom_function(node)
    return (
        function is not None
        and function.__module__ == DistributedDataParallel.__module__
        and function.__qualname__ == "_DDPSink"
    )


def buckets_of(module: DistributedDataParallel) -> dict[int, Bucket]:
    """By ``id`` of a parameter what the log of its module says of it.

    torch writes the log when a forward pass begins, and not each time: what is in it is of the
    passes before that.

    Args:
        module: Any; none of its processes is asked.

    Returns:
        Nothing where there is no log, or where it is written otherwise than expected.
    """
    with contextlib.suppress(Exception):  # torch calls it a prototype
        log = module._get_ddp_logging_data()  # type: ignore[no-untyped-call]
        return _buckets(_reduced_parameters(module), log)
    return {}


def _buckets(parameters: Sequence[torch.Tensor], log: Mapping[str, Any]) -> dict[int, Bucket]:
    count = len(parameters)
    order = _numbers(str(log.get("prev_iteration_grad_ready_order_indices", "")))
    ready = {place: i for i, place in enumerate(order)}
    rebuilt = str(log.get("rebuilt_per_bucket_param_indices", ""))
    if rebuilt:
        groups = [_numbers(each) for each in rebuilt.split(",")]
        sizes = _numbers(str(log["rebuilt_bucket_sizes"]))
    else:
        sizes = _numbers(str(log["bucket_sizes"]))
        groups = _from_the_last(parameters, sizes)
    found = {
        place: (number, nbytes, len(group))
        for number, (group, nbytes) in enumerate(zip(groups, sizes, strict=False))
        for place in group
    }
    return {
        id(parameter): Bucket(
            number, len(sizes), nbytes, together, ready.get(place), len(order) or count
        )
        for place, parameter in enumerate(parameters)
        for number, nbytes, together in [found.get(place, (None, 0, 0))]
    }


def _from_the_last(parameters: Sequence[torch.Tensor], sizes: Sequence[int]) -> list[list[int]]:
    """Places of the parameters of each bucket; none where their sizes do not tell.

    The buckets that torch begins with have parameters of one kind in their order, the last first.
    """
    if len(Counter((each.dtype, each.device) for each in parameters)) != 1:
        return []
    place = len(parameters)
    found = []
    for size in sizes:
        group: list[int] = []
        left = size
        while left > 0 and place > 0:
            place -= 1
            group.append(place)
            left -= parameters[place].numel() * parameters[place].element_size()
        if left != 0:
            return []
        found.append(group)
    return found if place == 0 else []


def _reduced_parameters(module: DistributedDataParallel) -> list[torch.Tensor]:
    """Those whose gradients are reduced, in the order in which the log counts them."""
    ignored = getattr(module, "parameters_to_ignore", ())
    found: dict[int, torch.Tensor] = {}
    for path, below in module.module.named_modules():
        for name, parameter in below.named_parameters(recurse=False):
            if parameter.requires_grad and f"{path}.{name}" not in ignored:
                found.setdefault(id(parameter), parameter)
    return list(found.values())


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.replace(",", " ").split()]
