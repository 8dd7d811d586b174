"""The numbers of a tensor as JSON can carry them: all of a small one, or some of a large one."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from ..schema.values import JsonNumber, Values
from .reading import PLAIN, why_unreadable, zeros_like

_LARGEST_EXACT = 2**53  # a browser's numbers are doubles


def json_number(value: float) -> JsonNumber:
    """A number as JSON can carry it: NaN, infinities and integers beyond 2**53 become strings."""
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST_EXACT else str(value)
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


_LISTED = {torch.float32, torch.float64, torch.int64}


def plain_values(tensor: torch.Tensor) -> Values | None:
    """Every number of a tensor, as `summarise` gives them; None where they cannot be read.

    The tensor is a small one: all of it is copied.
    """
    try:
        if why_unreadable(tensor) is not None:
            return None
        if type(tensor) in PLAIN and tensor.dtype in _LISTED and _is_dense(tensor):
            return as_json(tensor.tolist())  # as most are: told at a third of the time
        values = tensor.detach()
        if values._is_zerotensor():
            values = zeros_like(values)
        return as_nested_list(values if values.layout is torch.strided else values.to_dense())
    except Exception:  # any backend may refuse any operation
        return None


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor._is_zerotensor()


def as_nested_list(tensor: torch.Tensor) -> Values:
    """Every number of a dense tensor whose memory can be read."""
    if tensor.dtype in _LISTED:  # the same at a third of the time
        return as_json(tensor.tolist())
    return as_json(readable(tensor).cpu().tolist())


def evenly_spread(tensor: torch.Tensor, most: int) -> tuple[torch.Tensor, list[list[int]] | None]:
    """At most ``most`` values of a tensor, spread evenly along each dimension.

    Args:
        tensor: A dense tensor.
        most: How many values at most.

    Returns:
        A tensor with as many dimensions, and the positions it shows along each, first and last
        included where two or more are shown; None for the positions when it shows everything.
        Nothing but what is shown is copied.
    """
    if tensor.numel() <= most:
        return tensor, None
    indices = _spread(tuple(tensor.shape), most)
    at = _at(indices) if tensor.is_cpu else tuple(each.to(tensor.device) for each in _at(indices))
    return tensor[at], [list(picked) for picked in indices]


@functools.lru_cache(256)
def _at(indices: tuple[tuple[int, ...], ...]) -> tuple[torch.Tensor, ...]:
    """Positions as torch takes them, of which each dimension of a tensor has its own."""
    after = range(len(indices) - 1, -1, -1)
    with torch.inference_mode(False):
        return tuple(
            torch.tensor(picked, device="cpu").view(-1, *[1] * dims)
            for picked, dims in zip(indices, after, strict=True)
        )


@functools.lru_cache(1024)
def _spread(shape: tuple[int, ...], most: int) -> tuple[tuple[int, ...], ...]:
    """The positions of at most ``most`` values of a larger tensor, along each dimension."""
    # Shrink the longest dimension until the rest fits: small dimensions stay whole.
    counts = list(shape)
    while math.prod(counts) > most:
        longest = max(range(len(counts)), key=counts.__getitem__)
        others = math.prod(counts) // counts[longest]
        second = max((c for i, c in enumerate(counts) if i != longest), default=1)
        counts[longest] = max(1, min(counts[longest] - 1, max(most // others, second)))
    return tuple(map(_evenly, shape, counts))


def _evenly(size: int, count: int) -> tuple[int, ...]:
    step = (size - 1) / (count - 1) if count > 1 else 0.0
    return tuple(round(i * step) for i in range(count))


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in a dtype that torch can list, compare and add up."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    if tensor.is_floating_point() and tensor.dtype is not torch.float64:
        # mps has no float64
        return tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)
    if tensor.dtype in (torch.uint16, torch.uint32):
        return tensor.to(torch.int64)
    return tensor


def as_json(values: Any) -> Values:
    """Python's numbers, also in nested lists, as JSON can carry them."""
    if isinstance(values, list):
        return [
            each if type(each) is float and math.isfinite(each) else as_json(each)
            for each in values
        ]
    if isinstance(values, bool):
        return values
    if isinstance(values, complex):
        return f"{values.real:.6g}{values.imag:+.6g}j"
    return json_number(values)
