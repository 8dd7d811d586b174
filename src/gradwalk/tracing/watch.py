"""`watch`: annotate the autograd graph during the forward pass that makes it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode

from ..torch_api.engine import next_sequence_nr
from ..torch_api.modes import is_tracing, pop_mode, push_mode, top_mode, unseen, without_overrides
from .operands import tensors_of
from .session import Session

# In eval mode they use other kernels, with other rounding, unless a mode is active.
_FUSED = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)


class _Watcher(TorchFunctionMode):
    """Sees the calls and results of every torch function that this thread calls from Python."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        self.session = Session()
        self.paused_by: nn.Module | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call ``func`` unchanged, and record the call."""
        kwargs = kwargs or {}
        # The compiler and the tracer must see only the call itself.
        if is_compiling() or is_tracing():
            return func(*args, **kwargs)
        before = next_sequence_nr()
        result = func(*args, **kwargs)
        numbers = before, next_sequence_nr()
        # Any tensor subclass may raise, and the user's program and modes must not notice.
        try:
            with without_overrides(), unseen():
                self.session.record_call(func, args, kwargs, result, numbers)
        except Exception:
            pass
        return result

    def pause(self, module: nn.Module) -> None:
        """Stop watching while a module runs that would compute or be traced differently."""
        if self.paused_by is None and top_mode() is self:
            self.paused_by = module
            pop_mode()

    def resume(self, module: nn.Module) -> None:
        """Watch again once that module has returned."""
        if self.paused_by is module:
            self.paused_by = None
            push_mode(self)


_local = threading.local()
_hooks_lock = threading.Lock()
_hooks: list[Any] = []
_watching = 0  # threads


@contextmanager
def watch() -> Iterator[None]:
    """Annotate the operations of a forward pass while it runs.

    Inside the block gradwalk records, for every operation, the user's source line, the running
    module, the function's name, whether it works in place, the operands that need no grad, and
    where gradient was cut: ``detach()``, ``.data``, ``no_grad``, ``item()``, integers, copies.
    `gradwalk.GraphWidget`, `gradwalk.capture` and `gradwalk.explain_grad` show these records.
    Values, gradients, random state and the graph do not change. No tensor is kept alive, and the
    records are freed with the graph. Blocks may be nested, and each thread watches only itself.

    Functions compiled by ``torch.compile`` or TorchScript are not entered.

    Example::

        >>> from gradwalk import capture
        >>> w, c = torch.tensor([4.0], requires_grad=True), torch.tensor([2.0])
        >>> with watch():
        ...     y = w * c
        >>> [(data["kind"], data.get("value")) for _, data in capture(y).nodes(data=True)]
        [('op', None), ('leaf', None), ('constant', '[2]')]
    """
    if is_compiling() or getattr(_local, "watcher", None) is not None:
        yield
        return
    _local.watcher = watcher = _Watcher()
    _install_hooks()
    push_mode(watcher)
    try:
        yield
    finally:
        if watcher.paused_by is None:
            pop_mode()
        _remove_hooks()
        _local.watcher = None
        with contextlib.suppress(Exception), without_overrides():
            watcher.session.finish()


def _install_hooks() -> None:
    global _watching  # noqa: PLW0603
    with _hooks_lock:
        _watching += 1
        if not _hooks:
            _hooks.append(register_module_forward_pre_hook(_before))
            _hooks.append(register_module_forward_hook(_after, always_call=True))


def _remove_hooks() -> None:
    global _watching  # noqa: PLW0603
    with _hooks_lock:
        _watching -= 1
        while _hooks and not _watching:
            _hooks.pop().remove()


def _before(module: nn.Module, inputs: Any) -> None:
    watcher = _running()
    if watcher is not None:
        watcher.session.modules.enter(module)
        if is_tracing() or (isinstance(module, _FUSED) and _may_fuse(module, inputs)):
            watcher.pause(module)


def _after(module: nn.Module, _: Any, __: Any) -> None:
    watcher = _running()
    if watcher is not None:
        watcher.session.modules.leave(module)
        watcher.resume(module)


def _running() -> _Watcher | None:
    return None if is_compiling() else getattr(_local, "watcher", None)


def _may_fuse(module: nn.Module, inputs: Any) -> bool:
    if module.training:
        return False
    tensors = [*module.parameters(), *tensors_of(inputs)]
    with without_overrides():  # user modes must not see these queries
        return not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
