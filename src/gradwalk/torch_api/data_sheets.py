"""What data sheets say of accelerators: operations and bytes per second."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import torch

from ..english import nearest

_WRONG = ("NVIDIA L4",)  # torch's table has another device's bandwidth
_NOT_SPARSE = (torch.float32, torch.float64)


@dataclass(frozen=True)
class DataSheet:
    """The peak rates of a device, with dense matrices."""

    name: str  # its name, "NVIDIA H100"
    flops: dict[torch.dtype, float]  # floating-point operations per second by dtype
    bandwidth: float  # bytes per second that its memory moves


def data_sheet(name: str) -> DataSheet:
    """Return the rates of a device; raise an error for one that torch does not know."""
    if not isinstance(name, str):
        raise TypeError(f"device was given a {type(name).__name__}. Give a name, 'NVIDIA H100'.")
    # Imported here: it takes seconds.
    table = importlib.import_module("torch._inductor.analysis.device_info")._device_mapping
    known = [each for each in table if each not in _WRONG]
    found = next((each for each in known if name.upper() in (each, each.partition(" ")[2])), None)
    if found is None:
        near = nearest(name.upper(), known) or f"Known: {', '.join(known)}."
        raise ValueError(f"device was given {name!r}, whose rates are not known. {near}")
    info = table[found]
    flops = {
        dtype: 1e12 * tops / (1 if dtype in _NOT_SPARSE else info.tops_sparsity_factor)
        for dtype, tops in info.tops.items()
        if isinstance(dtype, torch.dtype)
    }
    return DataSheet(found, flops, 1e9 * info.dram_bw_gbs)


def bytes_moved(func: object, args: object, result: object) -> int:
    """Return the bytes that an operation reads and writes at least; 0 for a view."""
    if getattr(func, "is_view", False):
        return 0
    leaves = torch.utils._pytree.tree_leaves((args, result))
    tensors = {id(each): each for each in leaves if isinstance(each, torch.Tensor)}
    return sum(_size(each) for each in tensors.values())


def _size(tensor: torch.Tensor) -> int:
    size = tensor.numel() * tensor.element_size()
    if tensor.layout is not torch.strided:
        return size
    return min(size, tensor.untyped_storage().nbytes())  # an expanded one has fewer
