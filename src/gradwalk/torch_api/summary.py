"""Summarise a tensor: statistics and at most 64 numbers, as plain JSON values.

Reads values only: no gradient, random state or tensor is changed. It copies at most
`gradwalk.torch_api.reading.PART` numbers at a time, and reads the repeated numbers of expanded
dimensions once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ..english import join_words
from ..schema.details import TensorSummary
from ..schema.json_values import json_number
from ..schema.values import Values
from .dtensors import PLAIN, own_part, simulated_parts
from .modes import unwrapped, without_function_subclasses, without_transforms
from .reading import (
    PART,
    distinct,
    dtype_of,
    first_line,
    is_zero_tensor,
    overlaps_too_much,
    parts,
    read_version,
    same_numbers,
    sparse_parts,
    why_unreadable,
    zeros_like,
)

_LISTED = {torch.float32, torch.float64, torch.int64}


def plain_values(tensor: torch.Tensor) -> Values | None:
    """Every number of a small tensor, as `summarise` gives them; None where they cannot be read."""
    try:
        if why_unreadable(tensor) is not None:
            return None
        is_plain = type(tensor) in PLAIN and tensor.layout is torch.strided
        if is_plain and tensor.dtype in _LISTED and not is_zero_tensor(tensor):
            return as_json(tensor.tolist())  # as most are: told at a third of the time
        values = tensor.detach()
        if is_zero_tensor(values):
            values = zeros_like(values)
        return as_nested_list(values if values.layout is torch.strided else values.to_dense())
    except Exception:  # any backend may refuse any operation
        return None


def as_nested_list(tensor: torch.Tensor) -> Values:
    """Every number of a dense tensor whose memory can be read."""
    if tensor.dtype in _LISTED:  # the same at a third of the time
        return as_json(tensor.tolist())
    return as_json(readable(tensor).cpu().tolist())


def evenly_spread(tensor: torch.Tensor, most: int) -> tuple[torch.Tensor, list[list[int]] | None]:
    """Return at most ``most`` values of a dense tensor, spread evenly along each dimension.

    Also the positions shown along each, first and last included where two or more are shown; None
    for the positions when it shows everything. Nothing else is copied.
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


def tensor_of(values: Values, dtype: str, shape: Sequence[int]) -> torch.Tensor:
    """Return a tensor with numbers as `plain_values` gives them."""
    found = dtype_of(dtype)
    return torch.tensor(_parsed(values, found.is_complex), dtype=found).reshape(tuple(shape))


def _parsed(values: Any, is_complex: bool) -> Any:
    """Parse numbers that JSON holds as text: "nan", "1+2j"."""
    if isinstance(values, list):
        return [_parsed(each, is_complex) for each in values]
    if isinstance(values, str):
        return complex(values) if is_complex else float(values)
    return values


MOST_VALUES = 64

_MOST_HELD = 2**28  # bytes of the tensors whose summaries are remembered

_LARGEST_UNPACKED = 16 * PART  # sparse numbers that are copied to be looked at


def summarise(tensor: torch.Tensor) -> TensorSummary:
    """Summarise a tensor of any dtype, layout or device, also meta, nested and wrapped ones.

    Up to 64 values are an evenly spread slice along each dimension. ``min``, ``max``, ``mean`` and
    2-``norm`` are as torch computes them in double precision (NaN as soon as one value is NaN). A
    statistic that does not exist (of an empty tensor, the minimum of complex numbers) is None. When
    something cannot be read, ``note`` says why in a sentence.
    """
    part = own_part(tensor)
    if part is not None:
        return _of_part(tensor, part)
    inner = unwrapped(tensor)
    if inner is not None:
        try:
            with without_transforms():
                return _of_wrapped(tensor, *inner)
        except RuntimeError as error:  # this torch does not let us leave them
            return {**without_values(tensor), "note": f"{first_line(error)}."}
    # A subclass may refuse any method, or run a user's code: the base class's are used.
    with torch.no_grad(), without_function_subclasses():
        summary = without_values(tensor)
        if summary["note"] is not None:
            return summary
        try:
            summary["note"] = why_unreadable(tensor)
            if summary["note"] is None:
                _fill(summary, torch.Tensor.detach(tensor))
        except Exception as error:  # any backend may refuse any operation; the panel must open
            summary["note"] = f"Not all of it can be read here; torch says: {first_line(error)}"
    return summary


def _of_part(tensor: Any, part: torch.Tensor) -> TensorSummary:
    """Summarise the part of a DTensor that this process or its first simulated rank holds."""
    summary = summarise(part)
    notes = [summary["note"]]
    if hasattr(tensor, "placements"):
        placed = ", ".join(map(str, tensor.placements))
        notes.insert(0, f"This rank's part of a tensor {tuple(tensor.shape)}, placed as {placed}.")
    ranks = simulated_parts(tensor)
    if ranks:
        notes.append(f"This is rank {min(ranks)} of the {len(ranks)} simulated ranks.")
    summary["note"] = " ".join(filter(None, notes))
    return summary


def _of_wrapped(tensor: torch.Tensor, inner: torch.Tensor, hidden: list[int]) -> TensorSummary:
    """Summarise the tensor inside a ``torch.func`` wrapper, with the dimensions that vmap hides."""
    summary = summarise(inner)
    if hidden:
        note = (
            f"vmap over {join_words(map(str, hidden))}: the program sees one sample, of shape "
            f"{tuple(tensor.shape)}; all of them are shown, as {tuple(inner.shape)}."
        )
        summary["note"] = " ".join(filter(None, (note, summary["note"])))
    return summary


Summarise = Callable[[torch.Tensor], TensorSummary]
"""`summarise`, or `Summaries.of`, which does the same."""


class Summaries:
    """`summarise` for many tensors; reads the same memory once.

    It holds the tensors that it remembers, so that their memory is not reused. Drop it afterwards.

    Example::

        >>> summaries = Summaries()
        >>> x = torch.ones(2)
        >>> summaries.of(x)["norm"] == summaries.of(x.detach())["norm"] == summarise(x)["norm"]
        True
    """

    def __init__(self) -> None:
        self._known: dict[Any, TensorSummary] = {}
        # By id, each with its version then: the tensors that it holds.
        self._held: dict[int, tuple[torch.Tensor, int, TensorSummary]] = {}
        self._bytes_left = _MOST_HELD

    def of(self, tensor: torch.Tensor) -> TensorSummary:
        """Return the summary of a tensor: the same object each time, so do not change it."""
        held = self._held.get(id(tensor))
        if held is not None and held[0] is tensor and held[1] == read_version(tensor):
            return held[2]
        key = same_numbers(tensor)
        found = self._known.get(key)
        if found is None:
            found = summarise(tensor)
            if key is None or (size := tensor.untyped_storage().nbytes()) > self._bytes_left:
                return found
            self._bytes_left -= size
            self._known[key] = found
        self._held[id(tensor)] = tensor, read_version(tensor), found
        return found


def without_values(tensor: torch.Tensor) -> TensorSummary:
    """Summarise a tensor without reading its values; the statistics are None."""
    found: TensorSummary = {
        "shape": [],
        "dtype": str(torch.Tensor.dtype.__get__(tensor)),  # type: ignore[attr-defined]
        "device": "unknown",
        "numel": 0,
        "values": None,
        "truncated": False,
        "indices": None,
        "min": None,
        "max": None,
        "mean": None,
        "norm": None,
        "nan": None,
        "inf": None,
        "zeros": None,
        "note": None,
    }
    try:
        with without_function_subclasses():
            found["device"] = str(torch.Tensor.device.__get__(tensor))
            if not torch.Tensor.is_nested.__get__(tensor):  # type: ignore[attr-defined]
                shape = tuple(torch.Tensor.size(tensor))
                if not all(type(size) is int for size in shape):
                    found["note"] = (
                        "Its sizes are symbols, not numbers (torch is tracing with dynamic "
                        "shapes), so it holds no values."
                    )
                    return found
                found["shape"] = list(shape)
                found["numel"] = math.prod(shape)
    except Exception as error:  # a subclass may refuse to tell even that
        found["note"] = f"This tensor cannot be read; it says: {first_line(error)}"
    return found


def _fill(summary: TensorSummary, tensor: torch.Tensor) -> None:
    if tensor.is_nested:
        _fill_nested(summary, tensor)
        return
    if tensor.layout is not torch.strided:
        kind = str(tensor.layout).removeprefix("torch.")
        if tensor.numel() > PART:
            _fill_stored(summary, tensor, kind)
            return
        summary["note"] = f"A {kind} tensor, shown as the dense tensor it stands for."
        tensor = tensor.to_dense()
    if is_zero_tensor(tensor):
        tensor = zeros_like(tensor)
    shown, indices = evenly_spread(tensor, MOST_VALUES)
    summary["truncated"] = indices is not None
    summary["indices"] = indices
    summary["values"] = as_nested_list(shown)
    _fill_statistics(summary, tensor)


def _fill_nested(summary: TensorSummary, tensor: torch.Tensor) -> None:
    within = list(tensor.unbind())
    shapes = ", ".join(str(tuple(part.shape)) for part in within[:4])
    more = ", ..." if len(within) > 4 else ""
    summary["numel"] = sum(part.numel() for part in within)
    summary["note"] = (
        f"A nested tensor of {len(within)} parts, of shapes {shapes}{more}; "
        "the statistics are over all parts."
    )
    _fill_numbers(summary, _joined(within), repeats=1)


def _joined(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield the numbers of many tensors, about `PART` at a time."""
    waiting: list[torch.Tensor] = []
    count = 0
    for part in (part for tensor in tensors for part in parts(tensor)):
        if count + part.numel() > PART:
            yield torch.cat(waiting)
            waiting, count = [], 0
        waiting.append(part.flatten())
        count += part.numel()
    if waiting:
        yield torch.cat(waiting)


def _fill_stored(summary: TensorSummary, tensor: torch.Tensor, kind: str) -> None:
    if tensor.layout is torch.sparse_coo:
        if not tensor.is_coalesced() and sparse_parts(tensor)[1].shape[0] > _LARGEST_UNPACKED:
            summary["note"] = (
                f"A {kind} tensor that was not coalesced, which takes too much memory to be done "
                "only to look at it."
            )
            return
        stored = tensor.coalesce().values()
    else:
        stored = tensor.values()
    summary["note"] = f"A {kind} tensor; the statistics are over its stored values."
    _fill_statistics(summary, stored)


def _fill_statistics(summary: TensorSummary, tensor: torch.Tensor) -> None:
    if tensor.dim() == 0:
        # A Python number that torch saved as a tensor keeps a mark with which mean() returns
        # garbage (seen in 2.13); with a dimension it loses the mark.
        tensor = tensor.reshape(1)
    once, repeats = distinct(tensor)
    if overlaps_too_much(once):
        summary["note"] = (
            f"A view that shows the same memory again and again, as {once.numel():,} numbers: "
            "too many for statistics."
        )
        return
    _fill_numbers(summary, parts(once), repeats)


def _fill_numbers(summary: TensorSummary, numbers: Iterable[torch.Tensor], repeats: int) -> None:
    """Compute the statistics of numbers in parts, each repeated equally often in a tensor."""
    found = [_statistics(part) for part in numbers]
    if not found:
        return
    nan = sum(part.nan for part in found)
    summary["nan"] = nan * repeats
    summary["inf"] = sum(part.inf for part in found) * repeats
    summary["zeros"] = sum(part.zeros for part in found) * repeats
    if lows := [part.low for part in found if part.low is not None]:
        highs = [part.high for part in found if part.high is not None]
        summary["min"] = json_number(math.nan if nan else min(lows))
        summary["max"] = json_number(math.nan if nan else max(highs))
    norm = math.nan if nan else math.hypot(*(part.norm for part in found))
    summary["norm"] = json_number(norm * math.sqrt(repeats))
    if count := sum(part.size for part in found):
        summary["mean"] = as_json(sum(part.total for part in found) / count)


class _PartStatistics(NamedTuple):
    """Statistics of a part of a tensor."""

    size: int
    nan: int
    inf: int
    zeros: int
    low: float | None  # the smallest number; None where numbers have no order
    high: float | None
    norm: float
    total: complex


def _statistics(given: torch.Tensor) -> _PartStatistics:
    numbers = readable(given)
    # What float32 has is the same in float64, which takes twice as long to read.
    narrow = given if given.dtype is torch.float32 else numbers
    is_ordered = not numbers.is_complex() and numbers.dtype != torch.bool and numbers.numel()
    low, high = (each.item() for each in narrow.aminmax()) if is_ordered else (None, None)
    zeros = numbers.numel() - int(narrow.count_nonzero())
    if not (numbers.is_floating_point() or numbers.is_complex()):
        numbers = numbers.to(torch.float64)
    norm = torch.linalg.vector_norm(numbers).item()
    nan = inf = 0
    if not math.isfinite(norm):
        nan, inf = int(numbers.isnan().sum()), int(numbers.isinf().sum())
    return _PartStatistics(numbers.numel(), nan, inf, zeros, low, high, norm, numbers.sum().item())
