"""Read torch's modes and function transforms, and hide gradwalk's operations from them.

Within ``torch.func.grad``, ``vmap``, ``jacrev`` or ``hessian`` a tensor is a wrapper. The inner
tensor has its own autograd graph, or a dimension that the program does not see.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar, cast

import torch
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from .capability import capability, is_loaded, is_there, optional


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


_default_device = optional("torch_module._GLOBAL_DEVICE_CONTEXT")


def _is_default_device(mode: TorchFunctionMode) -> bool:
    """Return whether a mode is that of ``torch.set_default_device``, which has to be the lowest."""
    return mode is getattr(_default_device(torch), "device_context", None)


_P = ParamSpec("_P")
_R = TypeVar("_R")


# ---- What a program has switched on


@capability("torch._C._len_torch_dispatch_stack", otherwise=lambda: 1)
def dispatch_modes(count: Any) -> Callable[[], int]:
    """Return the number of active ``TorchDispatchMode``s; 1 if unknown."""
    return cast("Callable[[], int]", _counting(count))


@capability("torch._C._len_torch_function_stack", otherwise=lambda: 1)
def function_modes(count: Any) -> Callable[[], int]:
    """Return the number of active ``TorchFunctionMode``s; 1 if unknown."""
    return cast("Callable[[], int]", _counting(count))


def _counting(count: Any) -> Any:
    if count() != 0:
        raise ValueError("torch counts modes where none is active.")
    return count


def _may_trace() -> bool:
    try:
        return bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]
    except AttributeError:  # it reads the same private name
        return False


@capability("torch._C._is_tracing", otherwise=_may_trace)
def is_tracing(ask: Any) -> Callable[[], bool]:
    """Whether ``torch.jit.trace`` is running in this thread."""
    ask()
    return cast("Callable[[], bool]", ask)


def is_watched() -> bool:
    """Whether a ``TorchDispatchMode`` or ``TorchFunctionMode`` of the user is active."""
    return bool(dispatch_modes() or function_modes())


@capability(
    "forward_ad._current_level",
    otherwise=lambda: False,
    lost="Forward-mode differentiation is not recognised",
)
def has_tangents(level: Callable[[Any], int]) -> Callable[[], bool]:
    """Return whether forward-mode differentiation is on."""
    level(forward_ad)
    return lambda: level(forward_ad) >= 0


# ---- The stack of function modes


@capability("torch.overrides._push_mode", "torch.overrides._pop_mode", otherwise=lambda _mode: None)
def push_mode(push: Any, pop: Any) -> Callable[[TorchFunctionMode], None]:
    """Make a mode the innermost one."""
    push(TorchFunctionMode())
    pop()
    return cast("Callable[[TorchFunctionMode], None]", push)


@capability("torch.overrides._push_mode", "torch.overrides._pop_mode", otherwise=lambda: None)
def pop_mode(push: Any, pop: Any) -> Callable[[], TorchFunctionMode]:
    """Remove the innermost mode."""
    mode = TorchFunctionMode()
    push(mode)
    if pop() is not mode:
        raise ValueError("torch removes another mode.")
    return cast("Callable[[], TorchFunctionMode]", pop)


@capability("torch.overrides._get_current_function_mode", otherwise=lambda: None)
def top_mode(top: Any) -> Callable[[], TorchFunctionMode | None]:
    """Return the innermost mode, or None."""
    top()
    return cast("Callable[[], TorchFunctionMode | None]", top)


# ---- Hiding from modes and overrides


@contextmanager
def _modes_popped() -> Iterator[None]:
    """Return a context without function modes, and without overrides of tensor subclasses."""
    if not is_there(push_mode, pop_mode, function_modes):
        raise RuntimeError(_unhidden("TorchFunctionMode"))
    popped = [pop_mode() for _ in range(function_modes())]
    try:
        with without_function_subclasses():
            yield
    finally:
        for mode in reversed(popped):
            push_mode(mode)


@capability("torch._C.DisableTorchFunction", otherwise=_modes_popped)
def without_overrides(disabled: Any) -> Callable[[], AbstractContextManager[None]]:
    """Within it tensor subclasses are plain tensors, and no ``TorchFunctionMode`` sees a call."""
    with disabled():
        torch.ones(1, device="cpu")
    return cast("Callable[[], AbstractContextManager[None]]", disabled)


@contextmanager
def _no_overrides() -> Iterator[None]:
    if not is_there(without_overrides):
        raise RuntimeError(_unhidden("__torch_function__"))
    with without_overrides():
        yield


@capability("torch._C.DisableTorchFunctionSubclass", otherwise=_no_overrides)
def without_function_subclasses(disabled: Any) -> Callable[[], AbstractContextManager[None]]:
    """Within it no tensor subclass's ``__torch_function__`` runs, but a mode still sees calls."""
    with disabled():
        torch.ones(1, device="cpu")
    return cast("Callable[[], AbstractContextManager[None]]", disabled)


@contextmanager
def _seen() -> Iterator[None]:
    if not is_there(dispatch_modes) or dispatch_modes():
        raise RuntimeError(_unhidden("TorchDispatchMode"))
    yield


@capability("torch.utils._python_dispatch._disable_current_modes", otherwise=_seen)
def _without_dispatch_modes(disabled: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Within it no ``TorchDispatchMode`` of the user sees an operation."""
    with disabled():
        torch.ones(1, device="cpu")
    return cast("Callable[[], AbstractContextManager[Any]]", disabled)


def _unhidden(what: str) -> str:
    return (
        f"gradwalk cannot hide its operations from a {what} with torch {torch.__version__}. Look "
        "at the graph outside of it, or use another release of torch."
    )


_NOTHING_TO_DO = nullcontext()


def unseen() -> AbstractContextManager[None]:
    """Return a context in which the user's modes see no operation."""
    # Fast path: it is called several times per watched operation.
    if dispatch_modes() or function_modes():
        return _unseen()
    return _NOTHING_TO_DO


@contextmanager
def _unseen() -> Iterator[None]:
    with ExitStack() as stack:
        if dispatch_modes():
            stack.enter_context(_without_dispatch_modes())
        if function_modes():
            stack.enter_context(without_overrides())
        yield


@capability("torch._C._set_grad_enabled", otherwise=torch.set_grad_enabled)
def _set_grad_enabled(switch: Any) -> Callable[[bool], None]:
    # Not torch.set_grad_enabled: a Python call can be interrupted before it begins.
    switch(True)
    return cast("Callable[[bool], None]", switch)


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
                _set_grad_enabled(enabled)

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


# ---- Seeing operations

Begin = Callable[[Any, tuple[Any, ...], dict[str, Any]], Callable[[Any], None]]


@capability(
    "torch.utils._python_dispatch.TorchDispatchMode",
    otherwise=lambda _begin: nullcontext(),
    lost="The operations inside of custom backwards are not recorded",
)
def reporting(mode: Any) -> Callable[[Begin], AbstractContextManager[Any]]:
    """Return a context that reports each operation. The user's modes see the operations, too.

    It takes a callback for what runs, which returns one for the result; neither may raise.
    """

    class Reporting(mode):  # type: ignore[misc]
        def __init__(self, begin: Begin) -> None:
            super().__init__()
            self._begin = begin

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            # Disabling dynamo imports it, so do that only where it is imported already.
            run = _run_uncompiled() if is_loaded("torch._dynamo") else _run
            ended = self._begin(func, args, kwargs or {})
            result = run(func, args, kwargs or {})
            ended(result)
            return result

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

    seen: list[Any] = []
    with Reporting(lambda *_: seen.append):
        torch.ones(1, device="cpu").add(1)
    if len(seen) < 2:
        raise ValueError("torch reports no operation to a mode.")
    return Reporting


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs)


@functools.cache
def _run_uncompiled() -> Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]:
    found: Any = torch.compiler.disable(_run)  # type: ignore[no-untyped-call]
    return cast("Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]", found)


# ---- Function transforms

_TRANSFORMS = "Transforms of torch.func are not recognised"


@capability(
    "torch._C._functorch.is_functorch_wrapped_tensor", otherwise=lambda _: False, lost=_TRANSFORMS
)
def is_wrapped(ask: Any) -> Callable[[torch.Tensor], bool]:
    """Whether a tensor is a wrapper inside of a transform."""
    if ask(torch.ones(1, device="cpu")):
        raise ValueError("torch calls a plain tensor wrapped.")
    return cast("Callable[[torch.Tensor], bool]", ask)


@capability(
    "torch._C._functorch.get_unwrapped",
    "torch._C._functorch.is_batchedtensor",
    "torch._C._functorch.maybe_get_bdim",
    otherwise=lambda _: None,
    lost=_TRANSFORMS,
)
def _layer(
    inside: Any, is_batched: Any, place: Any
) -> Callable[[torch.Tensor], tuple[torch.Tensor, int | None] | None]:
    """Return the tensor inside a wrapper and the size of its hidden dimension; None if unknown."""

    def layer(tensor: torch.Tensor) -> tuple[torch.Tensor, int | None]:
        inner = inside(tensor)
        return inner, int(inner.shape[place(tensor)]) if is_batched(tensor) else None

    return _in_vmap(layer)


@capability(
    "torch._C._functorch.get_interpreter_stack",
    "torch._C._functorch.maybe_get_level",
    "torch._C._functorch.TransformType",
    "torch._C._functorch.CVmapInterpreterPtr",
    otherwise=lambda _: (),
    lost=_TRANSFORMS,
)
def _transforms(
    stack: Any, level_of: Any, kinds: Any, vmap: Any
) -> Callable[[torch.Tensor], tuple[str, ...]]:
    def transforms(tensor: torch.Tensor) -> tuple[str, ...]:
        found = []
        for level in stack() or ():
            if level.level() > level_of(tensor):
                break  # it was created outside the inner ones
            kind = level.key()
            if kind == kinds.Vmap:
                found.append(f"vmap over {vmap(level).batchSize()}")
            else:
                found.append(str(kind.name).lower())
        return tuple(found)

    return _in_vmap(transforms)


def _in_vmap(function: Callable[[torch.Tensor], _R]) -> Callable[[torch.Tensor], _R]:
    """Try a function on a tensor inside of ``vmap``."""

    def tried(tensor: torch.Tensor) -> torch.Tensor:
        if not function(tensor):
            raise ValueError("torch reports no transform inside of vmap.")
        return tensor

    torch.vmap(tried)(torch.ones(1, device="cpu"))
    return function


def transforms_around(tensor: torch.Tensor | None) -> tuple[str, ...]:
    """Return the active transforms of a tensor, outermost first: "vmap over 2", "grad"."""
    return () if tensor is None or not is_wrapped(tensor) else _transforms(tensor)


def is_transformed(tensor: torch.Tensor) -> bool:
    """Return whether a tensor belongs to a transform of ``torch.func`` or is traced in one."""
    return bool(is_wrapped(tensor) or is_tracing())


def unwrapped(tensor: torch.Tensor) -> tuple[torch.Tensor, list[int]] | None:
    """Unwrap a tensor of ``torch.func``; return it and the sizes of hidden dimensions, or None."""
    found = None
    sizes: list[int] = []
    while (layer := _inner(tensor)) is not None:
        tensor, size = layer
        sizes += [] if size is None else [size]
        found = tensor, sizes
    return found


def layers(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield a tensor, and the tensors inside its ``torch.func`` wrappers."""
    yield tensor
    while (layer := _inner(tensor)) is not None:
        tensor, _ = layer
        yield tensor


def _inner(tensor: torch.Tensor) -> tuple[torch.Tensor, int | None] | None:
    return _layer(tensor) if is_wrapped(tensor) else None


def _not_outside() -> AbstractContextManager[None]:
    raise RuntimeError(f"torch {torch.__version__} does not let gradwalk leave a transform")


@capability("torch._C._DisableFuncTorch", otherwise=_not_outside, lost=_TRANSFORMS)
def without_transforms(disabled: Any) -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which transforms do not see operations on plain tensors."""
    with disabled():
        torch.ones(1, device="cpu")
    return cast("Callable[[], AbstractContextManager[None]]", disabled)
