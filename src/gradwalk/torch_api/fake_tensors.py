"""Fake tensors, the cost of operations on them, data sheets, and the fake process group."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import torch
from torch import nn
from torch.utils.flop_counter import flop_registry

from ..english import nearest
from .capability import capability, is_there, named, optional, sentence, torch_version
from .engine import current_node, next_sequence_nr
from .modes import layers
from .modules import own_buffers, own_parameters
from .nodes import sequence_nr
from .reading import is_fake_kind, key_of, sparse_parts
from .signatures import schema_of


def refuse_to_plan() -> None:
    """Raise RuntimeError if this torch lacks something that a plan needs."""
    needed = (fake_mode, operation_mode, data_dependent, key_of, schema_of, sparse_parts)
    if not is_there(
        *needed, current_node, next_sequence_nr, sequence_nr, own_parameters, own_buffers
    ):
        _no_plan()


def _no_plan(*_: Any) -> NoReturn:
    raise RuntimeError(
        f"{sentence('plan() does not work', torch_version())} Use another release of torch."
    )


@capability("torch._subclasses.fake_tensor.FakeTensorMode", otherwise=_no_plan)
def fake_mode(mode: Any) -> Callable[[], Any]:
    """Return a mode in which no tensor has memory; real tensors may be used in it."""
    with mode(allow_non_fake_inputs=True):
        if not is_fake_kind(type(torch.ones(1, device="cpu"))):
            raise ValueError("torch makes real tensors in its fake mode.")
    return lambda: mode(allow_non_fake_inputs=True)


@capability(
    "torch._subclasses.fake_tensor.DataDependentOutputException",
    "torch._subclasses.fake_tensor.DynamicOutputShapeException",
    "torch._subclasses.fake_tensor.UnsupportedOperatorException",
    otherwise=_no_plan,
)
def data_dependent(*kinds: Any) -> Callable[[], tuple[type[Exception], ...]]:
    """Return the errors of operations whose result depends on values.

    Fake tensors have no values.
    """
    return lambda: kinds


@functools.cache
def _is_wrapper(kind: type) -> bool:
    return hasattr(kind, "__tensor_flatten__") and not is_fake_kind(kind)


def storages_of(tensor: torch.Tensor) -> Iterator[torch.UntypedStorage]:
    """Yield the storages of a tensor; of a sharded or wrapped one, those of its inner tensors."""
    *_, tensor = layers(tensor)  # the one inside of ``vmap``
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None and _is_wrapper(type(tensor)):
        inner = [getattr(tensor, name) for name in flatten()[0]]
        for each in inner:  # of a sharded tensor also its mesh
            if isinstance(each, torch.Tensor):
                yield from storages_of(each)
    elif tensor.layout is torch.strided:
        yield tensor.untyped_storage()
    elif tensor.layout is torch.sparse_coo:
        for part in sparse_parts(tensor):
            yield from storages_of(part)


def _leaves(values: Any) -> list[Any]:
    if isinstance(values, Mapping):
        values = list(values.values())
    if not isinstance(values, (list, tuple)):
        return [values]
    return [leaf for each in values for leaf in _leaves(each)]


@capability("torch.utils._pytree.tree_leaves", otherwise=_leaves)
def tree_leaves(leaves: Any) -> Callable[[Any], list[Any]]:
    """Return the values in nested values."""
    if leaves([1, {"a": (2,)}]) != [1, 2]:
        raise ValueError("torch gives other values.")
    return cast("Callable[[Any], list[Any]]", leaves)


@capability("torch.utils._pytree.tree_map", otherwise=_no_plan)
def tree_map(mapped: Any) -> Callable[[Callable[[Any], Any], Any], Any]:
    """Return nested values with each value replaced."""
    if mapped(str, [1, {"a": (2,)}]) != ["1", {"a": ("2",)}]:
        raise ValueError("torch gives other values.")
    return cast("Callable[[Callable[[Any], Any], Any], Any]", mapped)


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Return the tensors in nested values."""
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


def was_converted(func: Any, args: Any, result: torch.Tensor) -> bool:
    """Whether an operation only changed the dtype of its first argument."""
    return func is torch.ops.aten._to_copy.default and args[0].dtype != result.dtype


@capability(
    "torch.utils._python_dispatch.TorchDispatchMode",
    "torch._guards.active_fake_mode",
    "torch._subclasses.fake_tensor.disable_fake_tensor_cache",
    otherwise=_no_plan,
)
def operation_mode(
    mode: Any, active_fake_mode: Any, without_cache: Any
) -> Callable[[Callable[[Any, Any, Any, Any], None]], Any]:
    """Return a mode that reports each operation with its result to a callback.

    It is below autograd and above fake tensors.
    """

    class OperationMode(mode):  # type: ignore[misc]
        def __init__(self, ended: Callable[[Any, Any, Any, Any], None]) -> None:
            super().__init__()
            self._ended = ended
            self._outer: Any = None

        def __enter__(self) -> Any:
            self._outer = active_fake_mode()
            return super().__enter__()

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
            elif self._outer is not None and len(schema_of(func).returns) > 1:
                with without_cache(self._outer):  # in it, two results never share memory
                    result = func(*args, **kwargs)
            else:
                result = func(*args, **kwargs)
            # A sharded tensor works out its shapes under a fake mode of its own.
            if active_fake_mode() is self._outer:
                self._ended(func, args, kwargs, result)
            return result

    return OperationMode


@capability("torch.utils._python_dispatch.TorchDispatchMode", otherwise=_no_plan)
def handling_mode(mode: Any) -> Callable[[Callable[[Any, Any, Any], Any]], Any]:
    """Return a mode in which a function runs each operation: it gets the operation and arguments.

    It is below autograd. The operations that the function runs itself do not come to it.
    """

    class HandlingMode(mode):  # type: ignore[misc]
        def __init__(self, handle: Callable[[Any, Any, Any], Any]) -> None:
            super().__init__()
            self._handle = handle

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            if func.namespace == "prim":
                return func(*args, **kwargs or {})  # asks a fake tensor for its device
            if any(map(_is_wrapper, types)):
                return NotImplemented  # its operations on the inner tensors come next
            return self._handle(func, args, kwargs or {})

    return HandlingMode


@capability("torch._guards.active_fake_mode", otherwise=_no_plan)
def active_fake_mode(active: Any) -> Callable[[], Any]:
    """Return the innermost fake mode, or None."""
    if active() is not None:
        raise ValueError("torch names a mode where none is active.")
    return cast("Callable[[], Any]", active)


def _is_of_torch(module: object) -> bool:
    return f"{module}.".startswith("torch.")


@capability("torch._subclasses", "torch._subclasses.FakeTensor", otherwise=contextlib.nullcontext)
def taken_as_real(package: Any, kind: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Return a context in which programs that ask whether a tensor is fake get no for an answer.

    Libraries ask to find out whether they are traced. torch itself still gets the true answer. It
    logs no errors of fake tensors, which are raised, too.
    """

    class Asked(type(kind)):  # type: ignore[misc]
        def __instancecheck__(cls, value: Any) -> bool:
            asking = sys._getframe(1).f_globals.get("__name__")
            return _is_of_torch(asking) and isinstance(value, kind)

    log = logging.getLogger(kind.__module__)
    shown = Asked("FakeTensor", (kind,), {"__module__": kind.__module__})

    @contextlib.contextmanager
    def taken() -> Iterator[None]:
        places = [package, *(m for m in list(sys.modules.values()) if _has_own_name(m, kind))]
        was_disabled, log.disabled = log.disabled, True
        for each in places:
            each.FakeTensor = shown
        try:
            yield
        finally:
            log.disabled = was_disabled
            for each in places:
                each.FakeTensor = kind

    return taken


def _has_own_name(module: Any, kind: type) -> bool:
    """Whether a module that is not torch's has imported the class of fake tensors."""
    found = getattr(module, "__dict__", {})
    return found.get("FakeTensor") is kind and not _is_of_torch(found.get("__name__"))


@contextlib.contextmanager
def resizes_reported(resized: Callable[[Any], None]) -> Iterator[None]:
    """Return a context that reports each storage that is resized to a callback."""
    resize = torch.UntypedStorage.resize_

    @functools.wraps(resize)
    def reporting(storage: Any, size: Any) -> Any:
        result = resize(storage, size)
        resized(storage)
        return result

    torch.UntypedStorage.resize_ = reporting  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign]


def flops_of(func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> int:
    """Return what torch's flop counter counts: products, convolutions and attention."""
    packet = func.overloadpacket
    formula = flop_registry.get(packet)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=result))
    name = packet.__name__
    if name in _RECURRENT:
        return _flops_of_recurrent(name, args)
    if not name.startswith("_scaled_dot_product_flash_attention_for_cpu"):
        return 0
    is_backward = name.endswith("backward")  # its first argument is the incoming gradient
    query, key, value = args[1:4] if is_backward else args[:3]
    *batch, rows, depth = query.shape
    scores = 2 * math.prod(batch) * rows * key.shape[-2]
    # The backward computes the scores again, and two products for each of the forward's.
    depths = 3 * depth + 2 * value.shape[-1] if is_backward else depth + value.shape[-1]
    return int(scores * depths)


_RECURRENT = {
    "mkldnn_rnn_layer": 1,
    "mkldnn_rnn_layer_backward": 2,
    "_cudnn_rnn": 1,
    "_cudnn_rnn_backward": 2,
}
"""The fused recurrent operators, with how often each multiplies by its weights."""


def _flops_of_recurrent(name: str, args: Any) -> int:
    source, weights = args[0], args[1:5]
    if not isinstance(weights[0], torch.Tensor):  # cuDNN's: the weights are a list
        weights = weights[0]
    steps = math.prod(source.shape[:-1])  # of all sequences
    numbers = sum(each.numel() for each in weights if each.dim() == 2)
    return int(2 * steps * numbers * _RECURRENT[name])


@capability("torch.testing._internal.distributed.fake_pg.FakeStore", otherwise=_no_plan)
def _fake_store(kind: Any) -> Callable[[], Any]:
    return cast("Callable[[], Any]", kind)  # its import also adds the fake process group


@capability("torch.distributed._tools.fake_collectives", otherwise=lambda: None)
def _register_collectives(_: Any) -> Callable[[], None]:
    # Its import says what collectives do to tensors without data; newer torch says so by itself.
    return lambda: None


@contextlib.contextmanager
def fake_ranks(ranks: int) -> Iterator[None]:
    """Return a context in which this process is rank 0 of a process group without communication."""
    if not torch.distributed.is_available():
        raise RuntimeError("This torch was built without torch.distributed, which ranks= needs.")
    store = _fake_store()
    if torch.distributed.is_initialized():
        raise RuntimeError(
            "ranks was given, but this process is already in a process group. Plan in a process "
            "of its own."
        )
    _register_collectives()
    torch.distributed.init_process_group("fake", rank=0, world_size=ranks, store=store)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


_is_optimized = named("torch._dynamo.eval_frame.OptimizedModule")
_compiled_call = optional("Module._compiled_call_impl")


def is_compiled_module(module: nn.Module) -> bool:
    """Whether ``torch.compile`` or ``module.compile()`` has compiled a module."""
    return any(map(_is_optimized, type(module).__mro__)) or _compiled_call(module) is not None


@contextlib.contextmanager
def swapped_tensors(model: nn.Module, state: dict[str, torch.Tensor]) -> Iterator[None]:
    """Return a context in which a model has other parameters and buffers, given by name."""
    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules(remove_duplicate=False):
            each: Any
            for each in (own_parameters(module), own_buffers(module)):
                for key, tensor in list(each.items()):
                    if tensor is not None:
                        stack.callback(each.__setitem__, key, tensor)
                        each[key] = state[f"{name}.{key}" if name else key]
            if isinstance(module, nn.RNNBase):
                _swap_flat_weights(module, stack)
        yield


@capability("RNNBase._flat_weights*", otherwise=_no_plan)
def _swap_flat_weights(kept: str) -> Callable[[nn.Module, contextlib.ExitStack], None]:
    """Let an RNN use its present weights within a context: it also keeps them in a list."""

    def swap(module: nn.Module, stack: contextlib.ExitStack) -> None:
        flat = getattr(module, kept, None)
        if flat is not None:
            stack.callback(module.__dict__.__setitem__, kept, flat)
            names = getattr(module, f"{kept}_names")
            module.__dict__[kept] = [getattr(module, each, None) for each in names]

    if not getattr(nn.RNN(1, 1), f"{kept}_names"):
        raise ValueError("torch keeps the weights of an RNN in another way.")
    return swap


_WRONG = ("NVIDIA L4",)  # torch's table has another device's bandwidth
_NOT_SPARSE = (torch.float32, torch.float64)


@dataclass(frozen=True)
class DataSheet:
    """The peak rates of a device, with dense matrices."""

    name: str  # its name, "NVIDIA H100"
    flops: dict[torch.dtype, float]  # floating-point operations per second by dtype
    bandwidth: float  # bytes per second that its memory moves


@capability(
    "torch._inductor.analysis.device_info._device_mapping",
    otherwise=dict,
    lost="The rates of devices are unknown",
)
def _device_table(table: Any) -> Callable[[], Mapping[str, Any]]:
    return lambda: cast("Mapping[str, Any]", table)


def data_sheet(name: str) -> DataSheet:
    """Return the rates of a device; raise an error for one that torch does not know."""
    if not isinstance(name, str):
        raise TypeError(f"device was given a {type(name).__name__}. Give a name, 'NVIDIA H100'.")
    table = _device_table()
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
    leaves = tree_leaves((args, result))
    tensors = {id(each): each for each in leaves if isinstance(each, torch.Tensor)}
    return sum(_size(each) for each in tensors.values())


def _size(tensor: torch.Tensor) -> int:
    size = tensor.numel() * tensor.element_size()
    if tensor.layout is not torch.strided:
        return size
    return min(size, tensor.untyped_storage().nbytes())  # an expanded one has fewer
