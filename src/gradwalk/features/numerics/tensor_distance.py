"""How far two tensors are from each other, whole or as far as a summary of them tells."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ...schema.details import TensorSummary
from ...schema.values import Values
from ...torch_api.reading import PART, is_plain
from ...torch_api.summary import summarise
from ...torch_api.tensors import dtype_of, tolerances, wider

Compared = Literal["all", "sample", "norm"]
"""Of what a gap is: of all numbers, of up to 64 evenly spread ones, of the norms alone."""

MOST_NUMBERS = 2**27
"""Larger tensors are compared some numbers at a time, and their difference is never held whole."""


@dataclass(frozen=True)
class TensorDistance:
    """The distance of a tensor from what was expected.

    Attributes:
        error: The 2-norm of the difference divided by that of what was expected; infinite where
            only one of the two is finite, and where zeros were expected.
        worst: What was expected and what was found where it is furthest beyond the tolerance; None
            where all numbers are within it. Of norms those.
        compared: Of what the two are.
    """

    error: float
    worst: tuple[float | complex, float | complex] | None
    compared: Compared

    @property
    def leaves(self) -> bool:
        """Whether a number is further off than the tolerance allows."""
        return self.worst is not None


class Number:
    """A tensor that is to be compared: itself, or what a file tells of it.

    Attributes:
        tensor: It; None where only a summary is known.
    """

    def __init__(self, tensor: torch.Tensor | None, summary: TensorSummary | None = None) -> None:
        self.tensor = None if tensor is None or not is_plain(tensor) else tensor
        self._like = tensor
        self._summary = summary

    def is_equal(self, other: Number) -> bool:
        """Whether both are tensors of the same numbers; not where they are only said to be."""
        one, two = self.tensor, other.tensor
        if one is None or two is None or one.dtype != two.dtype or one.device != two.device:
            return False
        # Of an expanded tensor the numbers are repeated: these are looked at once, elsewhere.
        is_small = one.numel() <= PART and two.numel() <= PART
        return is_small and torch.equal(one, two)

    def zeros(self) -> Number:
        """Zeros of the same shape, as far as that is known of it."""
        if self._like is not None:
            like = self._like
            zero = torch.zeros((), dtype=like.dtype, device=like.device)
            return Number(zero.expand(like.shape))
        summary = self.summary
        values = _zeros(summary["values"])
        return Number(None, {**summary, "values": values, "norm": 0.0, "min": 0.0, "max": 0.0})

    @property
    def summary(self) -> TensorSummary:
        """Its shape, its dtype, up to 64 of its numbers and its norm."""
        if self._summary is None:
            assert self._like is not None
            self._summary = summarise(self._like)
        return self._summary

    @property
    def dtype(self) -> torch.dtype:
        """Its dtype."""
        if self._like is not None:
            return self._like.dtype
        return dtype_of(self.summary["dtype"])

    @functools.cached_property
    def largest(self) -> float:
        """The largest of its numbers without their signs, as far as they are finite and known."""
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
    """How far a tensor is from what was expected, worked out in double precision.

    Args:
        expected: What it is measured by.
        found: The other one.
        allowed: The relative and the absolute tolerance; None for those of
            ``torch.testing.assert_close`` for the coarser of the two dtypes.
        scale: Gives what the absolute tolerance counts in, where it is asked for. Unless that is
            0, it is never less than the smallest number that both dtypes hold with all digits.

    Returns:
        The gap; None where the two have different shapes or nothing comparable is known of them.
        NaN and an infinity are equal to themselves.
    """
    if expected.is_equal(found):
        return TensorDistance(0.0, None, "all")
    rtol, atol = allowed or tolerances(expected.dtype, found.dtype)
    if atol:
        atol = max(atol * scale(), least_normal(expected.dtype, found.dtype))
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
            numbers = _listed(here["values"]), _listed(there["values"])
            return _of_parts(iter([numbers]), rtol, atol, "all" if is_whole else "sample")
    if here["norm"] is None or there["norm"] is None:
        return None
    norms = _listed([here["norm"]]), _listed([there["norm"]])
    # Tensors whose numbers all lie within the tolerance have norms that are no further apart.
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
    """The same numbers of tensors of one shape, in double precision, some at a time.

    A dimension along which all of them repeat the same numbers is looked at once: that changes no
    ratio of norms.
    """
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


def _listed(values: Values) -> torch.Tensor:
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
    """A number of which JSON may have made a word: "nan", "1+2j"."""
    if isinstance(value, str):
        return complex(value) if value.endswith("j") else float(value)
    return float(value)


def difference(other: torch.Tensor | None, one: torch.Tensor | None) -> torch.Tensor | None:
    """The difference of two tensors, in the finer of their dtypes and at least in float32.

    None where they have different shapes or are too large (an expanded one, say) to be copied.
    """
    if one is None or other is None or one.shape != other.shape or one.numel() > MOST_NUMBERS:
        return None
    dtype = torch.promote_types(wider(one.dtype), wider(other.dtype))
    other, one = other.to(device=one.device, dtype=dtype), one.to(dtype)
    if one.isfinite().all():
        return other - one
    is_same = (one == other) | (one.isnan() & other.isnan())
    return torch.where(is_same, 0, other - one)


def change_between(one: torch.Tensor | None, other: torch.Tensor | None) -> torch.Tensor | None:
    """The same for gradients, of which None stands for zeros."""
    if one is None and other is None:
        return None
    if one is None or other is None:
        change = other if other is not None else one
        assert change is not None
        change = change.to(wider(change.dtype))
        return change if one is None else -change
    return difference(other, one)


def least_normal(*dtypes: torch.dtype) -> float:
    """The smallest number that the coarsest of some dtypes holds with all its digits; else 0.

    Example::

        >>> least_normal(torch.float32, torch.float64)
        1.1754943508222875e-38
    """
    rounded = [each for each in dtypes if each.is_floating_point or each.is_complex]
    return max((torch.finfo(each).smallest_normal for each in rounded), default=0.0)


def ratio(some: Iterable[torch.Tensor], whole: Iterable[torch.Tensor], faint: float) -> float:
    """The 2-norm of tensors relative to that of others; 0 where the numbers are ``faint``."""
    given = list(some)
    above, below = _norm(given), _norm(whole)
    if above <= faint * math.sqrt(sum(each.numel() for each in given)):
        return 0.0
    return above / below if below and math.isfinite(above) else math.inf


def _norm(tensors: Iterable[torch.Tensor]) -> float:
    numbers = (each.to(wider(each.dtype)) for each in tensors)
    return math.hypot(
        *(float(torch.linalg.vector_norm(each, dtype=_wide(each.dtype))) for each in numbers)
    )


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64
