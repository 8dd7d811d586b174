"""Compute the distance of two tensors, in full or from their summaries."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ...backward.kept_gradients import KeptGradient
from ...schema.details import TensorSummary
from ...schema.values import Values
from ...torch_api.reading import PART, dtype_of, is_plain
from ...torch_api.summary import summarise
from ...torch_api.tolerances import tolerances

Compared = Literal["all", "sample", "norm"]
"""The numbers compared: all of them, up to 64 evenly spread ones, or only the norms."""


@dataclass(frozen=True)
class TensorDistance:
    """The distance of a tensor from the expected one."""

    # The 2-norm of the difference divided by the norm of the expected tensor; infinite if a number
    # is finite in only one of them, or zeros were expected.
    error: float
    # The expected and the actual number (or norm) furthest beyond the tolerance; None if all are
    # within it.
    worst: tuple[float | complex, float | complex] | None
    compared: Compared  # the numbers that were compared

    @property
    def leaves(self) -> bool:
        """Return whether a number is out of tolerance."""
        return self.worst is not None


class Number:
    """A tensor to compare, or its summary from a file.

    Attributes:
        tensor: The tensor; None if only a summary is known.
    """

    def __init__(self, tensor: torch.Tensor | None, summary: TensorSummary | None = None) -> None:
        self.tensor = None if tensor is None or not is_plain(tensor) else tensor
        self._like = tensor
        self._summary = summary

    @classmethod
    def kept(cls, kept: KeptGradient | None) -> Number | None:
        """Return the numbers of a recorded gradient, or their summary."""
        if kept is None:
            return None
        return cls(kept.tensor) if kept.tensor is not None else cls(None, kept.summarise())

    def is_equal(self, other: Number) -> bool:
        """Return whether both are small tensors with equal numbers."""
        one, two = self.tensor, other.tensor
        if one is None or two is None or one.dtype != two.dtype or one.device != two.device:
            return False
        # Large tensors may be expanded: `tensor_distance` reads repeated numbers once.
        is_small = one.numel() <= PART and two.numel() <= PART
        return is_small and torch.equal(one, two)

    def zeros(self) -> Number:
        """Return zeros of the same shape."""
        if self._like is not None:
            like = self._like
            zero = torch.zeros((), dtype=like.dtype, device=like.device)
            return Number(zero.expand(like.shape))
        summary = self.summary
        values = _zeros(summary["values"])
        return Number(None, {**summary, "values": values, "norm": 0.0, "min": 0.0, "max": 0.0})

    @property
    def summary(self) -> TensorSummary:
        """Return its shape, its dtype, up to 64 of its numbers and its norm."""
        if self._summary is None:
            assert self._like is not None
            self._summary = summarise(self._like)
        return self._summary

    @property
    def dtype(self) -> torch.dtype:
        """Return its dtype."""
        if self._like is not None:
            return self._like.dtype
        return dtype_of(self.summary["dtype"])

    @functools.cached_property
    def largest(self) -> float:
        """Return the largest magnitude among its known finite numbers."""
        if self.tensor is not None:
            found = [each.abs().nan_to_num(0, 0, 0).max() for (each,) in _parts(self.tensor)]
            return max(map(float, found), default=0.0)
        ends = [self.summary["min"], self.summary["max"], *_flat(self.summary["values"])]
        known = [abs(_number(each)) for each in ends if each is not None]
        return max((each for each in known if math.isfinite(each)), default=0.0)


def tensor_distance(
    expected: Number,
    found: Number,
    allowed: tuple[float, float] | None = None,
    scale: Callable[[], float] = lambda: 1.0,
) -> TensorDistance | None:
    """Return the distance of a tensor from the expected one, computed in double precision.

    Returns the distance; None if the shapes differ or nothing comparable is known. NaN and infinity
    equal themselves. ``allowed``: the relative and the absolute tolerance; None for those of
    ``torch.testing.assert_close`` for the coarser of the two dtypes. ``scale``: returns the factor
    of the absolute tolerance. Unless the tolerance is 0, it is at least the smallest normal number
    of both dtypes.
    """
    if expected.is_equal(found):
        return TensorDistance(0.0, None, "all")
    rtol, atol = allowed or tolerances(expected.dtype, found.dtype)
    if atol:
        atol = max(atol * scale(), _least_normal(expected.dtype, found.dtype))
    if expected.tensor is not None and found.tensor is not None:
        if expected.tensor.shape != found.tensor.shape:
            return None
        return _of_parts(_parts(expected.tensor, found.tensor), rtol, atol, "all")
    here, there = expected.summary, found.summary
    if here["shape"] != there["shape"]:
        return None
    if here["values"] is not None and there["values"] is not None:
        is_whole = not here["truncated"] and not there["truncated"]
        if is_whole or here["indices"] == there["indices"]:
            numbers = _tensor_of(here["values"]), _tensor_of(there["values"])
            return _of_parts(iter([numbers]), rtol, atol, "all" if is_whole else "sample")
    if here["norm"] is None or there["norm"] is None:
        return None
    norms = _tensor_of([here["norm"]]), _tensor_of([there["norm"]])
    # If all numbers are within atol, the norms differ by at most atol * sqrt(numel).
    atol *= math.sqrt(here["numel"])
    return _of_parts(iter([norms]), rtol, atol, "norm")


def _of_parts(
    parts: Iterator[tuple[torch.Tensor, ...]], rtol: float, atol: float, compared: Compared
) -> TensorDistance:
    apart = norm = most = 0.0
    worst: tuple[float | complex, float | complex] | None = None
    is_other = False
    for expected, found in parts:
        off, size = (found - expected).abs(), expected.abs()
        beyond = off - (atol + rtol * size)
        if not beyond.isfinite().all():
            is_same = (expected == found) | (expected.isnan() & found.isnan())
            is_known = expected.isfinite() & found.isfinite()
            off, size = torch.where(is_known, off, 0), torch.where(is_known, size, 0)
            beyond = torch.where(is_known, off - (atol + rtol * size), -math.inf)
            beyond = torch.where(is_known | is_same, beyond, math.inf)
        beyond = beyond.flatten()
        at = int(beyond.argmax())
        if float(beyond[at]) > most:
            most = float(beyond[at])
            worst = expected.flatten()[at].item(), found.flatten()[at].item()
        is_other = is_other or math.isinf(most)
        apart = math.hypot(apart, float(torch.linalg.vector_norm(off)))
        norm = math.hypot(norm, float(torch.linalg.vector_norm(size)))
    if is_other:
        return TensorDistance(math.inf, worst, compared)
    if apart == 0:
        return TensorDistance(0.0, None, compared)
    return TensorDistance(apart / norm if norm else math.inf, worst, compared)


def _parts(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield parts of tensors of one shape, in double precision; what is expanded once."""
    for dim, size in enumerate(tensors[0].shape):
        if size > 1 and all(each.stride(dim) == 0 for each in tensors):
            tensors = tuple(each.narrow(dim, 0, 1) for each in tensors)
    waiting = [tensors]
    devices = {each.device for each in tensors}
    while waiting:
        some = waiting.pop()
        if some[0].numel() > PART:
            dim = max(range(some[0].dim()), key=some[0].shape.__getitem__)
            size = some[0].shape[dim]
            half = size // 2
            waiting.append(tuple(each.narrow(dim, half, size - half) for each in some))
            waiting.append(tuple(each.narrow(dim, 0, half) for each in some))
        elif some[0].numel():
            yield tuple(_double(each.cpu() if len(devices) > 1 else each) for each in some)


def _double(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == "mps":  # which has no float64
        tensor = tensor.cpu()
    plain = tensor.detach()
    return plain.to(torch.complex128 if plain.is_complex() else torch.float64)


def _tensor_of(values: Values) -> torch.Tensor:
    numbers = [_number(each) for each in _flat(values)]
    is_complex = any(isinstance(each, complex) for each in numbers)
    return torch.tensor(numbers, dtype=torch.complex128 if is_complex else torch.float64)


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for each in values:
            yield from _flat(each)
    elif values is not None:
        yield values


def _zeros(values: Any) -> Any:
    if isinstance(values, list):
        return [_zeros(each) for each in values]
    return None if values is None else 0.0


def _number(value: Any) -> complex | float:
    """A number, which JSON may hold as a string: "nan", "1+2j"."""
    if isinstance(value, str):
        return complex(value) if value.endswith("j") else float(value)
    return float(value)


def _least_normal(*dtypes: torch.dtype) -> float:
    """The smallest normal number that all floating dtypes hold; 0 without one."""
    rounded = [each for each in dtypes if each.is_floating_point or each.is_complex]
    return max((torch.finfo(each).smallest_normal for each in rounded), default=0.0)
