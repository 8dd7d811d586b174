"""Norms of many gradients at once, without waiting for a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from ...torch_api.dtensors import own_part
from ...torch_api.modes import grad_mode_kept
from ...torch_api.reading import is_plain, stacked_norms

UNREAD = -1.0
"""The norm of a gradient that cannot be read, of an unusual class or layout."""

_NARROW = (torch.float16, torch.bfloat16)  # a norm overflows where its gradient does not


class Norms(NamedTuple):
    """Norms of the gradients of some tensors, by their places among these."""

    places: list[int]
    values: torch.Tensor


@grad_mode_kept
def grad_norms(tensors: Sequence[torch.Tensor]) -> list[Norms]:
    """Compute the norms of gradients: one tensor for each device and dtype."""
    return norms_together([(i, each.grad) for i, each in enumerate(tensors)])


def norms_together(given: Iterable[tuple[int, torch.Tensor | None]]) -> list[Norms]:
    """Compute the norms of numbered tensors; those of unusual classes are `UNREAD`."""
    groups: dict[tuple[torch.device, torch.dtype], tuple[list[int], list[torch.Tensor]]] = {}
    unread: list[int] = []
    with torch.no_grad():
        for place, tensor in given:
            if tensor is None:
                continue
            part = own_part(tensor)
            value = tensor if part is None else part
            if not is_plain(value) or not value.is_floating_point():
                unread.append(place)
                continue
            places, values = groups.setdefault((value.device, value.dtype), ([], []))
            places.append(place)
            values.append(value)
        found = [
            Norms(places, stacked_norms(values, torch.float32 if kind in _NARROW else None))
            for (_, kind), (places, values) in groups.items()
        ]
        return [*found, Norms(unread, torch.full((len(unread),), UNREAD))] if unread else found


def norms_of(tensors: Sequence[torch.Tensor]) -> dict[int, float]:
    """Return the norm of each gradient there is, by the ``id`` of its tensor."""
    return {
        id(tensors[place]): norm
        for places, values in grad_norms(tensors)
        for place, norm in zip(places, values.tolist(), strict=True)
    }
