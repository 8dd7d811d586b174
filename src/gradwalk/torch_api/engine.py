"""Access to torch's autograd engine while a backward pass runs."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch.autograd.graph import Node
from torch.utils.hooks import RemovableHandle

_T = TypeVar("_T")

_PROBE = "gradwalk: whether what is carried is held"

NO_TASK = -1

current_task: Callable[[], int] = torch._C._current_graph_task_id
"""Return the number of the backward pass whose hook is running; `NO_TASK` elsewhere."""

current_node: Callable[[], Node | None] = torch._C._current_autograd_node
"""Return the node that the engine runs in this thread, or None."""

next_sequence_nr: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
"""Return the sequence number of this thread's next autograd node."""


def running_node() -> str | None:
    """Return the name of the node that the engine runs in this thread, or None."""
    node = current_node()
    return None if node is None else str(node.name())


def remove_hooks(handles: Iterable[RemovableHandle]) -> None:
    """Remove hooks like their handles' ``remove()``, in half the time."""
    for handle in handles:
        hooks = handle.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(handle.id, None)


def replace_hook(handle: RemovableHandle, hook: Callable[..., None]) -> None:
    """Replace a hook."""
    hooks = handle.hooks_dict_ref()
    if hooks is not None:
        hooks[handle.id] = hook


def is_alone(handle: RemovableHandle) -> bool:
    """Whether a hook is the only one of its node or tensor: hooks run in registration order."""
    return len(handle.hooks_dict_ref() or ()) == 1


def keeps_graph() -> bool:
    """Whether the running pass keeps saved tensors (``retain_graph=True``)."""
    return bool(torch._C._autograd._get_current_graph_task_keep_graph())


def when_done(callback: Callable[[], None]) -> None:
    """Call back when the running pass is complete, but not when it fails."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)


def carry(key: str, value: Any) -> None:
    """Store an object in the thread-local state that the engine copies to its threads."""
    if not _is_held_when_carried():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))  # the reference that torch will release
    torch._C._stash_obj_in_tls(key, value)


@functools.cache
def _is_held_when_carried() -> bool:
    """Whether torch takes a reference to the object; up to 2.11 it only releases one.

    The object would be freed while it is in use, and the process would crash.
    """
    probe = object()
    before = sys.getrefcount(probe)
    torch._C._stash_obj_in_tls(_PROBE, probe)
    is_held = sys.getrefcount(probe) > before
    if not is_held:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(probe))
    return is_held


def carried(key: str) -> Any:
    """Return the object that `carry` stored, or None."""
    return torch._C._get_obj_in_tls(key) if torch._C._is_key_in_tls(key) else None


def within_a_pass(work: Callable[[], _T]) -> _T:
    """Run a function inside a backward pass with ``retain_graph=True``, without grad mode.

    Checkpointing needs the number of the running pass: it recomputes a part once per pass, and
    keeps the result until the pass ends.
    """
    found: list[_T] = []
    with torch.inference_mode(False), torch.enable_grad():
        start = torch.zeros((), requires_grad=True).clone()
    node: Any = start.grad_fn
    node.register_prehook(lambda _: found.append(work()))
    torch.autograd.backward(start, retain_graph=True)
    return found[0]
