"""Norms of many gradients at once, without waiting for a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from ...torch_api.dtensors import PLAIN, own_part
from ...torch_api.modes import grad_mode_kept
from ...torch_api.reading import is_plain, stacked_norms

UNREAD = -1.0
"""The norm of a gradient that cannot be read, of an unusual class or layout."""

_NARROW = (torch.float16, torch.bfloat16)  # a norm overflows where its gradient does not


class Norms(NamedTuple):
    """Norms of the gradients of some tensors, by their places among these."""

    places: list[int]
    values: torch.Tensor


Kind = tuple[torch.dtype, torch.device]


def readable(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the numbers of a tensor that this process has; None for an unusual class or layout."""
    # First a fast check. It does not notice memory that is smaller than the shape, but that there
    # is some: the program's optimizer is about to read these tensors as well.
    if type(tensor) in PLAIN and tensor.layout is torch.strided and tensor.is_floating_point():
        try:
            if tensor.const_data_ptr() and not tensor.is_nested:  # type: ignore[attr-defined]
                return tensor
        except Exception:  # a wrapper, or torch up to 2.12: look more closely
            pass
    part = own_part(tensor)
    value = tensor if part is None else part
    return value if is_plain(value) and value.is_floating_point() else None


@grad_mode_kept
def grad_norms(tensors: Iterable[torch.Tensor]) -> list[Norms]:
    """Compute the norms of gradients: one tensor for each device and dtype."""
    given, unread = [], []
    for place, tensor in enumerate(tensors):
        grad = tensor.grad
        if grad is None:
            continue
        value = readable(grad)
        if value is None:
            unread.append(place)
        else:
            given.append((place, value))
    with torch.no_grad():
        found = [
            Norms(places, stacked_norms(values, torch.float32 if dtype in _NARROW else None))
            for (dtype, _), (places, values) in by_kind(given).items()
        ]
    if unread:
        found.append(Norms(unread, torch.full((len(unread),), UNREAD)))
    return found


def by_kind(
    given: Iterable[tuple[int, torch.Tensor]],
) -> dict[Kind, tuple[list[int], list[torch.Tensor]]]:
    """Group numbered tensors by dtype and device."""
    groups: dict[Kind, tuple[list[int], list[torch.Tensor]]] = {}
    last: Kind | None = None
    for place, tensor in given:  # this runs for every parameter of every step
        kind = tensor.dtype, tensor.device
        if kind != last:
            last = kind
            places, values = groups.setdefault(kind, ([], []))
        places.append(place)
        values.append(tensor)
    return groups


def numbers_of(norms: Iterable[Norms]) -> dict[int, float]:
    """Read norms, which waits for a device."""
    return {
        place: norm
        for places, values in norms
        for place, norm in zip(places, values.tolist(), strict=True)
    }


def norms_of(tensors: Sequence[torch.Tensor]) -> dict[int, float]:
    """Return the norm of each gradient there is, by the ``id`` of its tensor."""
    found = numbers_of(grad_norms(tensors))
    return {id(tensors[place]): norm for place, norm in found.items()}
