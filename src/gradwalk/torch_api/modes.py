"""Read torch's modes and function transforms, and hide gradwalk's operations from them.

Within ``torch.func.grad``, ``vmap``, ``jacrev`` or ``hessian`` a tensor is a wrapper. The inner
tensor has its own autograd graph, or a dimension that the program does not see.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar

import torch
from torch._compile import _disable_dynamo
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

push_mode: Callable[[TorchFunctionMode], None] = torch.overrides._push_mode
pop_mode: Callable[[], TorchFunctionMode] = torch.overrides._pop_mode
top_mode: Callable[[], TorchFunctionMode | None] = torch.overrides._get_current_function_mode

is_tracing: Callable[[], bool] = torch._C._is_tracing
"""Whether ``torch.jit.trace`` is running in this thread."""

without_function_subclasses = torch._C.DisableTorchFunctionSubclass
"""Within it no ``__torch_function__`` of a tensor subclass runs, but a mode still sees calls."""

without_overrides = torch._C.DisableTorchFunction
"""Within it tensor subclasses are plain tensors, and no ``TorchFunctionMode`` sees a call."""


@contextmanager
def lowest_mode(mode: TorchFunctionMode | None) -> Iterator[None]:
    """Return a context in which the modes above ``mode`` are set aside, to push or pop it there.

    Tasks that take turns in one thread may begin a mode before ours and end it before ours: torch
    then pops whichever is on top. Lowest, above a default device only, ours is never in their way.
    """
    others: list[TorchFunctionMode] = []
    while (top := top_mode()) is not mode and top is not None and not _is_default_device(top):
        others.append(pop_mode())
    is_missing = mode is not None and top_mode() is not mode
    if mode is not None and is_missing:
        push_mode(mode)  # somebody popped it, so that the block can
    try:
        yield
    finally:
        if is_missing and top_mode() is mode:
            pop_mode()
        for other in reversed(others):
            push_mode(other)


def _is_default_device(mode: TorchFunctionMode) -> bool:
    """Return whether a mode is that of ``torch.set_default_device``, which has to be the lowest."""
    default = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    return mode is getattr(default, "device_context", None)


_P = ParamSpec("_P")
_R = TypeVar("_R")


def grad_mode_kept(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that torch's grad mode is the same afterwards, even after an error.

    ``with torch.no_grad()`` alone is not enough: an interrupt (Ctrl+C, the notebook's stop button)
    that comes when the mode is off and the block has not begun leaves it off.
    """

    @functools.wraps(function)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        enabled = torch.is_grad_enabled()
        try:
            return function(*args, **kwargs)
        finally:
            if torch.is_grad_enabled() != enabled:
                # Not torch.set_grad_enabled: a Python call can be interrupted before it begins.
                torch._C._set_grad_enabled(enabled)

    return wrapped


@contextmanager
def random_numbers_kept(devices: Iterable[torch.device]) -> Iterator[None]:
    """Return a context that restores torch's random generators, of the CPU and some devices."""
    indices: dict[str, set[int]] = {"cuda": set()}  # fork_rng always restores the CPU
    for each in devices:
        if each.type not in ("cpu", "meta"):
            indices.setdefault(each.type, set()).add(each.index or 0)
    with ExitStack() as kept:
        for kind, found in indices.items():
            kept.enter_context(torch.random.fork_rng(sorted(found), device_type=kind))
        yield


def is_watched() -> bool:
    """Whether a ``TorchDispatchMode`` or ``TorchFunctionMode`` of the user is active."""
    return bool(torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack())


class reporting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # noqa: N801  a block
    """A context that reports each operation. The user's modes see the operations, too."""

    def __init__(
        self, begin: Callable[[Any, tuple[Any, ...], dict[str, Any]], Callable[[Any], None]]
    ) -> None:
        """Store a callback for what runs, which returns one for the result; neither may raise."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._begin = begin

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation unchanged, and report it."""
        # Disabling dynamo imports it, so do that only where it is imported already.
        run = _run_uncompiled if "torch._dynamo" in sys.modules else _run
        ended = self._begin(func, args, kwargs or {})
        result = run(func, args, kwargs or {})
        ended(result)
        return result

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs)


_run_uncompiled = _disable_dynamo(_run, recursive=True)


_NOTHING_TO_DO = nullcontext()


def unseen() -> AbstractContextManager[None]:
    """Return a context in which the user's modes see no operation."""
    # Fast path: it is called several times per watched operation.
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return _unseen()
    return _NOTHING_TO_DO


@contextmanager
def _unseen() -> Iterator[None]:
    with ExitStack() as stack:
        if torch._C._len_torch_dispatch_stack():
            stack.enter_context(_disable_current_modes())
        if torch._C._len_torch_function_stack():
            stack.enter_context(torch._C.DisableTorchFunction())
        yield


_functorch = torch._C._functorch


def transforms_around(tensor: torch.Tensor | None) -> tuple[str, ...]:
    """Return the active transforms of a tensor, outermost first: "vmap over 2", "grad"."""
    if tensor is None or not _functorch.is_functorch_wrapped_tensor(tensor):
        return ()
    found = []
    for level in _functorch.get_interpreter_stack() or ():
        if level.level() > _functorch.maybe_get_level(tensor):
            break  # it was created outside the inner ones
        kind = level.key()
        if kind == _functorch.TransformType.Vmap:
            size = _functorch.CVmapInterpreterPtr(level).batchSize()
            found.append(f"vmap over {size}")
        else:
            found.append(str(kind.name).lower())
    return tuple(found)


def is_transformed(tensor: torch.Tensor) -> bool:
    """Return whether a tensor belongs to a transform of ``torch.func`` or is traced in one."""
    return bool(_functorch.is_functorch_wrapped_tensor(tensor) or is_tracing())


def has_tangents() -> bool:
    """Return whether forward-mode differentiation is on."""
    return forward_ad._current_level >= 0


def unwrapped(tensor: torch.Tensor) -> tuple[torch.Tensor, list[int]] | None:
    """Unwrap a tensor of ``torch.func``; return it and the sizes of hidden dimensions, or None."""
    if not _functorch.is_functorch_wrapped_tensor(tensor):
        return None
    sizes: list[int] = []
    while _functorch.is_functorch_wrapped_tensor(tensor):
        place = _functorch.maybe_get_bdim(tensor)
        is_batched = _functorch.is_batchedtensor(tensor)
        tensor = _functorch.get_unwrapped(tensor)
        if is_batched:
            sizes.append(int(tensor.shape[place]))
    return tensor, sizes


def layers(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield a tensor, and the tensors inside its ``torch.func`` wrappers."""
    yield tensor
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
        yield tensor


@contextmanager
def without_transforms() -> Iterator[None]:
    """Return a context in which transforms do not see operations on plain tensors."""
    with torch._C._DisableFuncTorch():
        yield
