"""`watch`: annotate the autograd graph during the forward pass that makes it."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling, is_dynamo_compiling
from torch.overrides import TorchFunctionMode

from ..torch_api.engine import next_sequence_nr
from ..torch_api.modes import (
    dispatch_modes,
    function_modes,
    is_tracing,
    pop_mode,
    push_mode,
    top_mode,
    unseen,
    without_overrides,
)
from ..torch_api.module_hooks import ModuleHooks
from ..torch_api.watching import can_watch
from . import failed_call
from .call import Call
from .call_site import call_at, leave_out
from .operands import PLAIN_RESULTS, call_kind, tensors_of
from .session import Session
from .steps import StepHooks

# In eval mode they use other kernels, with other rounding, unless a mode is active.
_FUSED = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)


_new: Any = tuple.__new__  # the constructor of a NamedTuple is a function in Python
_NO_KEYWORDS: Mapping[str, Any] = {}
_PLAIN = (Tensor,)  # the types of a call that no subclass of tensors overrides


def _only(result: Any) -> Tensor | None:
    """Return the one plain tensor that a call gave, perhaps beside None, if it needs grad."""
    if type(result) is tuple and len(result) == 2 and result[1] is None:
        result = result[0]  # an attention without its weights
    return result if type(result) is Tensor and result.requires_grad else None


class _Watcher(TorchFunctionMode):
    """Sees the calls and results of every torch function that this thread calls from Python."""

    def __init__(self) -> None:
        super().__init__()
        self.session = Session()
        self.modules = self.session.modules
        self.paused_by: nn.Module | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call ``func`` unchanged, and record the call."""
        # The compiler and the tracer must see only the call itself.
        if is_dynamo_compiling() or is_tracing():
            return func(*args, **(kwargs or {}))
        kind, start = call_kind(func), next_sequence_nr()
        random = self.session.state_before(kwargs) if kind.draws else None
        caller = sys._getframe(1)
        run = call_at(caller)
        try:
            if kind.runs_backward:
                with self.session.around_backward(args):
                    result = run(func, args, kwargs or _NO_KEYWORDS)
            else:
                result = run(func, args, kwargs or _NO_KEYWORDS)
        except BaseException as error:
            leave_out(error)
            raise
        # Any tensor subclass may raise, and the user's program and modes must not notice.
        try:
            if kind.only_asks and type(result) in PLAIN_RESULTS and not kwargs:
                return result
            end = next_sequence_nr()
            call = _new(Call, (func, args, kwargs or _NO_KEYWORDS, start, end, caller, random))
            if (not types or types == _PLAIN) and not (dispatch_modes() or function_modes()):
                session = self.session
                only = _only(result) if start < end and kind.is_plain else None
                if only is None or not session.record_only(call, kind, only):
                    session.record_call(call, kind, result)
            elif not is_compiling():
                with without_overrides(), unseen():
                    self.session.record_call(call, kind, result)
        except Exception:
            pass
        return result

    def pause(self, module: nn.Module) -> None:
        """Stop watching while a module runs that would compute or be traced differently."""
        if self.paused_by is None and top_mode() is self:
            self.paused_by = module
            pop_mode()

    def resume(self) -> None:
        """Watch again once that module has returned."""
        self.paused_by = None
        push_mode(self)


_local = threading.local()
_hooks_lock = threading.Lock()
_watching = 0  # threads


@contextmanager
def watch() -> Iterator[None]:
    """Annotate the operations of a forward pass while it runs.

    Inside the block gradwalk records, for every operation, the user's source line, the running
    module, the function's name, whether it works in place, the operands that need no grad, and
    where gradient was cut: ``detach()``, ``.data``, ``no_grad``, ``item()``, integers, copies.
    `gradwalk.GraphWidget`, `gradwalk.capture` and `gradwalk.explain_grad` show these records.
    Values, gradients, random state and the graph do not change. No tensor is kept alive, and the
    records are freed with the graph. If the block raises, `gradwalk.last_failure` keeps the inputs
    of the failing call until the next block begins. Blocks may be nested, and each thread watches
    only itself. In a notebook ``%load_ext gradwalk`` runs every cell in such a block.

    A backward pass that the program starts in the block from a loss that lives on is recorded, as
    far as it is cheap: gradients up to 16 MiB and statistics of the others, for 20,000 nodes of one
    block. `gradwalk.diagnose` and a later ``GraphWidget(loss)`` show it. Of some steps of the
    optimizers a few numbers of each parameter are noted, which `gradwalk.diagnose` compares.

    Functions compiled by ``torch.compile`` or TorchScript are not entered.

    Example::

        >>> from gradwalk import capture
        >>> import torch
        >>> from gradwalk import watch
        >>> w, c = torch.tensor([4.0], requires_grad=True), torch.tensor([2.0])
        >>> with watch():
        ...     y = w * c
        >>> [(data["kind"], data.get("value")) for _, data in capture(y).nodes(data=True)]
        [('op', None), ('leaf', None), ('constant', '[2]')]
    """
    if is_compiling() or not can_watch():
        yield
        return
    if getattr(_local, "watcher", None) is not None:
        with _noting_failure():
            yield
        return
    _local.watcher = watcher = _Watcher()
    _install_hooks()
    push_mode(watcher)
    try:
        with _noting_failure():
            yield
    finally:
        if watcher.paused_by is None:
            pop_mode()
        _remove_hooks()
        _local.watcher = None
        with contextlib.suppress(Exception), without_overrides():
            watcher.session.finish()


def is_watching() -> bool:
    """Whether a block of `watch` runs in this thread."""
    return getattr(_local, "watcher", None) is not None


@contextmanager
def _noting_failure() -> Iterator[None]:
    failed_call.keep(None)
    try:
        yield
    except GeneratorExit:  # somebody closed the generator that the block is in
        raise
    except BaseException as error:
        failed_call.note(error, _Watcher.__torch_function__.__code__)
        raise


def _install_hooks() -> None:
    global _watching  # noqa: PLW0603
    with _hooks_lock:
        _watching += 1
        if _watching == 1:
            _hooks.switch_on()
            _step_hooks.switch_on()


def _remove_hooks() -> None:
    global _watching  # noqa: PLW0603
    with _hooks_lock:
        _watching -= 1
        if not _watching:
            _hooks.switch_off()
            _step_hooks.switch_off()


# The compiler must see no more of the hooks than the first question.
def _before(module: nn.Module, inputs: Any) -> None:
    if not is_compiling() and (watcher := getattr(_local, "watcher", None)) is not None:
        watcher.modules.enter(module)
        if is_tracing() or (isinstance(module, _FUSED) and _may_fuse(module, inputs)):
            watcher.pause(module)


def _after(module: nn.Module, _: Any, __: Any) -> None:
    if not is_dynamo_compiling() and (watcher := getattr(_local, "watcher", None)) is not None:
        watcher.modules.leave(module)
        if watcher.paused_by is module:
            watcher.resume()


_hooks = ModuleHooks(_before, _after)
_step_hooks = StepHooks(lambda: getattr(_local, "watcher", None) is not None)


def _may_fuse(module: nn.Module, inputs: Any) -> bool:
    if module.training:
        return False
    tensors = [*module.parameters(), *tensors_of(inputs)]
    with without_overrides():  # user modes must not see these queries
        return not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
