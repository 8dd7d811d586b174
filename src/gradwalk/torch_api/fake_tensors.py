"""Fake tensors, the cost of operations on them, data sheets, and the fake process group."""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
    disable_fake_tensor_cache,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

from ..english import nearest

__all__ = [
    "DATA_DEPENDENT",
    "DataSheet",
    "OperationMode",
    "bytes_moved",
    "data_sheet",
    "fake_mode",
    "fake_ranks",
    "flops_of",
    "is_compiled_module",
    "key_of",
    "storages_of",
    "swapped_tensors",
    "tensors_in",
    "tree_map",
    "was_converted",
]

DATA_DEPENDENT: tuple[type[Exception], ...] = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
"""The errors of operations whose result depends on values, which fake tensors do not have."""


def fake_mode() -> FakeTensorMode:
    """Return a mode in which no tensor has memory; real tensors may be used in it."""
    return FakeTensorMode(allow_non_fake_inputs=True)


@functools.cache
def _is_wrapper(kind: type) -> bool:
    return hasattr(kind, "__tensor_flatten__") and not issubclass(kind, FakeTensor)


def storages_of(tensor: torch.Tensor) -> Iterator[torch.UntypedStorage]:
    """Yield the storages of a tensor; of a sharded or wrapped one, those of its inner tensors."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None and _is_wrapper(type(tensor)):
        inner = [getattr(tensor, name) for name in flatten()[0]]
        for each in inner:  # of a sharded tensor also its mesh
            if isinstance(each, torch.Tensor):
                yield from storages_of(each)
    elif tensor.layout is torch.strided:
        yield tensor.untyped_storage()
    elif tensor.layout is torch.sparse_coo:
        yield from storages_of(tensor._indices())
        yield from storages_of(tensor._values())


def key_of(storage: torch.UntypedStorage) -> int:
    """Return the address of torch's object of a storage, which identifies it while it lives."""
    return int(storage._cdata)


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Return the tensors in nested values."""
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


def was_converted(func: Any, args: Any, result: torch.Tensor) -> bool:
    """Whether an operation only changed the dtype of its first argument."""
    return func is torch.ops.aten._to_copy.default and args[0].dtype != result.dtype


class OperationMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Reports each operation with its result, below autograd and above fake tensors."""

    def __init__(
        self, ended: Callable[[Any, Any, Any, Any], None], resized: Callable[[Any], None]
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._ended = ended
        self._resized = resized
        self._outer: Any = None
        self._resize: Any = None

    def __enter__(self) -> Any:
        self._outer = active_fake_mode()
        self._resize = resize = torch.UntypedStorage.resize_

        @functools.wraps(resize)
        def resized(storage: Any, size: Any) -> Any:
            result = resize(storage, size)
            self._resized(storage)
            return result

        torch.UntypedStorage.resize_ = resized  # type: ignore[method-assign,assignment]
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation unchanged, and report it."""
        if func.namespace == "prim":
            return func(*args, **kwargs or {})  # asks a fake tensor for its device
        if any(map(_is_wrapper, types)):
            return NotImplemented  # its operations on the inner tensors come next
        kwargs = kwargs or {}
        if self._outer is not None and str(func) == "_c10d_functional.wait_tensor.default":
            result = args[0]  # as without fake tensors; the fake one makes a new tensor
        elif self._outer is not None and len(func._schema.returns) > 1:
            with disable_fake_tensor_cache(self._outer):  # in it, two results never share memory
                result = func(*args, **kwargs)
        else:
            result = func(*args, **kwargs)
        # A sharded tensor works out its shapes under a fake mode of its own.
        if active_fake_mode() is self._outer:
            self._ended(func, args, kwargs, result)
        return result


def flops_of(func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> int:
    """Return what torch's flop counter counts: products, convolutions and attention."""
    packet = func.overloadpacket
    formula = flop_registry.get(packet)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=result))
    name = packet.__name__
    if not name.startswith("_scaled_dot_product_flash_attention_for_cpu"):
        return 0
    is_backward = name.endswith("backward")  # its first argument is the incoming gradient
    query, key, value = args[1:4] if is_backward else args[:3]
    *batch, rows, depth = query.shape
    scores = 2 * math.prod(batch) * rows * key.shape[-2]
    # The backward computes the scores again, and two products for each of the forward's.
    depths = 3 * depth + 2 * value.shape[-1] if is_backward else depth + value.shape[-1]
    return int(scores * depths)


@contextlib.contextmanager
def fake_ranks(ranks: int) -> Iterator[None]:
    """Return a context in which this process is rank 0 of a process group without communication."""
    if not torch.distributed.is_available():
        raise RuntimeError("This torch was built without torch.distributed, which ranks= needs.")
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

    if torch.distributed.is_initialized():
        raise RuntimeError(
            "ranks was given, but this process is already in a process group. Plan in a process "
            "of its own."
        )
    torch.distributed.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def is_compiled_module(module: nn.Module) -> bool:
    """Whether ``torch.compile`` or ``module.compile()`` has compiled a module."""
    dynamo = sys.modules.get("torch._dynamo")
    optimized = getattr(getattr(dynamo, "eval_frame", None), "OptimizedModule", ())
    return isinstance(module, optimized) or module._compiled_call_impl is not None


@contextlib.contextmanager
def swapped_tensors(model: nn.Module, state: dict[str, torch.Tensor]) -> Iterator[None]:
    """Return a context in which a model has other parameters and buffers, given by name."""
    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules(remove_duplicate=False):
            for tensors in (module._parameters, module._buffers):
                for key, tensor in list(tensors.items()):
                    if tensor is not None:
                        stack.callback(tensors.__setitem__, key, tensor)
                        tensors[key] = state[f"{name}.{key}" if name else key]
            flat = getattr(module, "_flat_weights", None)
            if isinstance(module, nn.RNNBase) and flat is not None:
                stack.callback(module.__dict__.__setitem__, "_flat_weights", flat)
                names = module._flat_weights_names
                module.__dict__["_flat_weights"] = [getattr(module, each, None) for each in names]
        yield


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
