"""A tensor in at most 64 numbers and its statistics, as plain JSON values.

Reads values only: no gradient, random state or tensor is changed.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..wire import JsonNumber, TensorSummary, Values

MOST_VALUES = 64

# Larger tensors are summed in float32, so that looking at one does not double its memory.
_EXACT_UP_TO = 1_000_000

_LARGEST_EXACT = 2**53  # a browser's numbers are doubles


def json_number(value: float) -> JsonNumber:
    """A number as JSON can carry it: NaN, infinities and integers beyond 2**53 become strings."""
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST_EXACT else str(value)
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def summarise(tensor: torch.Tensor) -> TensorSummary:
    """Summarise a tensor of any dtype, layout or device.

    Args:
        tensor: Any tensor; meta, sparse, nested, quantised and wrapped ones included.

    Returns:
        Shape, dtype, device, up to 64 values (an evenly spread slice along each dimension when
        there are more), ``min``, ``max``, ``mean`` and 2-``norm`` as torch computes them (NaN as
        soon as one value is NaN), and the counts ``nan``, ``inf`` and ``zeros``. A statistic that
        does not exist (of an empty tensor, the minimum of complex numbers) is None; when
        something cannot be read, ``note`` says why in a sentence.
    """
    summary = frame(tensor)
    try:
        with torch.no_grad():
            _fill(summary, tensor.detach())
    except Exception as error:  # any backend may refuse any operation; the panel must still open
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        summary["note"] = f"Not all of it can be read here; torch says: {first_line}"
    return summary


def frame(tensor: torch.Tensor) -> TensorSummary:
    """What can be said of a tensor without reading its values; the numbers are None."""
    nested = tensor.is_nested
    return {
        "shape": [] if nested else [int(size) for size in tensor.shape],
        "dtype": str(tensor.dtype),
        "device": str(tensor.device),
        "numel": 0 if nested else tensor.numel(),
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


def _fill(summary: TensorSummary, tensor: torch.Tensor) -> None:
    if tensor.device.type == "meta":
        summary["note"] = "A meta tensor: it has a shape and a dtype but holds no values."
        return
    if tensor.is_nested:
        parts = list(tensor.unbind())
        shapes = ", ".join(str(tuple(part.shape)) for part in parts[:4])
        more = ", ..." if len(parts) > 4 else ""
        summary["numel"] = sum(part.numel() for part in parts)
        summary["note"] = (
            f"A nested tensor of {len(parts)} parts, of shapes {shapes}{more}; "
            "the statistics are over all parts."
        )
        _fill_statistics(summary, torch.cat([part.flatten() for part in parts]))
        return
    if tensor.is_quantized:
        summary["note"] = "A quantised tensor; the values are dequantised."
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        kind = str(tensor.layout).removeprefix("torch.")
        if tensor.numel() > _EXACT_UP_TO:
            summary["note"] = f"A {kind} tensor; the statistics are over its stored values."
            stored = (
                tensor.coalesce().values() if tensor.layout is torch.sparse_coo else tensor.values()
            )
            _fill_statistics(summary, stored)
            return
        summary["note"] = f"A {kind} tensor, shown as the dense tensor it stands for."
        tensor = tensor.to_dense()
    _fill_values(summary, tensor)
    _fill_statistics(summary, tensor)


def _fill_values(summary: TensorSummary, tensor: torch.Tensor) -> None:
    shown, indices = evenly_spread(tensor, MOST_VALUES)
    summary["truncated"] = indices is not None
    summary["indices"] = indices
    summary["values"] = plain_values(shown)


def plain_values(tensor: torch.Tensor) -> Values | None:
    """Every number of a tensor, as `summarise` gives them; None where they cannot be read."""
    try:
        values = tensor.detach()
        dense = values if values.layout is torch.strided else values.to_dense()
        return _nested(_readable(dense).cpu().tolist())
    except Exception:  # any backend may refuse any operation
        return None


def evenly_spread(tensor: torch.Tensor, most: int) -> tuple[torch.Tensor, list[list[int]] | None]:
    """At most ``most`` values of a tensor, spread evenly along each dimension.

    Args:
        tensor: A dense tensor.
        most: How many values at most.

    Returns:
        A tensor with as many dimensions, and the positions it shows along each, first and last
        included where two or more are shown; None for the positions when it shows everything.
    """
    if tensor.numel() <= most:
        return tensor, None
    # Shrink the longest dimension until the rest fits: small dimensions stay whole.
    counts = list(tensor.shape)
    while math.prod(counts) > most:
        longest = max(range(len(counts)), key=counts.__getitem__)
        others = math.prod(counts) // counts[longest]
        second = max((c for i, c in enumerate(counts) if i != longest), default=1)
        counts[longest] = max(1, min(counts[longest] - 1, max(most // others, second)))
    indices = []
    for dim, (size, count) in enumerate(zip(tensor.shape, counts, strict=True)):
        step = (size - 1) / (count - 1) if count > 1 else 0.0
        picked = [round(i * step) for i in range(count)]
        indices.append(picked)
        if count < size:
            tensor = tensor.index_select(dim, torch.tensor(picked, device=tensor.device))
    return tensor, indices


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in a dtype that every operation below supports."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    if tensor.is_floating_point() and tensor.dtype is not torch.float64:
        exact = tensor.numel() <= _EXACT_UP_TO and tensor.device.type != "mps"  # mps has no float64
        return tensor.to(torch.float64 if exact else torch.float32)
    if tensor.dtype in (torch.uint16, torch.uint32):
        return tensor.to(torch.int64)
    return tensor


def _nested(values: Any) -> Values:
    if isinstance(values, list):
        return [_nested(value) for value in values]
    if isinstance(values, bool):
        return values
    if isinstance(values, complex):
        return f"{values.real:.6g}{values.imag:+.6g}j"
    return json_number(values)


def _fill_statistics(summary: TensorSummary, tensor: torch.Tensor) -> None:
    if tensor.dim() == 0:
        # A Python number that torch saved as a tensor keeps a mark with which mean() returns
        # garbage (seen in 2.13); with a dimension it loses the mark.
        tensor = tensor.reshape(1)
    numbers = _readable(tensor)
    counts = [numbers.isnan().sum(), numbers.isinf().sum(), (numbers == 0).sum()]
    summary["nan"], summary["inf"], summary["zeros"] = torch.stack(counts).tolist()
    ordered = not numbers.is_complex() and numbers.dtype != torch.bool
    if ordered and numbers.numel():
        low, high = torch.stack(numbers.aminmax()).tolist()
        summary["min"], summary["max"] = json_number(low), json_number(high)
    if not (numbers.is_floating_point() or numbers.is_complex()):
        numbers = numbers.to(torch.float64)
    summary["norm"] = json_number(float(torch.linalg.vector_norm(numbers)))
    if numbers.numel():
        summary["mean"] = _nested(numbers.mean().item())
