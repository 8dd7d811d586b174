"""What gradwalk asks of torch's autograd engine while a pass runs, by torch's private names."""

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
"""The number of the backward pass that the running code is a hook of; `NO_TASK` elsewhere."""

current_node: Callable[[], Node | None] = torch._C._current_autograd_node
"""The node that the engine runs in this thread; None outside of any."""

next_sequence_nr: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
"""The number that this thread's next autograd node will get."""


def running_node() -> str | None:
    """What the node is called that the engine runs in this thread; None outside of any."""
    node = current_node()
    return None if node is None else str(node.name())


def remove_hooks(handles: Iterable[RemovableHandle]) -> None:
    """Remove hooks, as their handles' own ``remove()`` does, in half the time."""
    for handle in handles:
        hooks = handle.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(handle.id, None)


def replace_hook(handle: RemovableHandle, hook: Callable[..., None]) -> None:
    """Have another hook run in the place of one."""
    hooks = handle.hooks_dict_ref()
    if hooks is not None:
        hooks[handle.id] = hook


def is_alone(handle: RemovableHandle) -> bool:
    """Whether no other hook stands where one does: they run in the order in which they came."""
    return len(handle.hooks_dict_ref() or ()) == 1


def keeps_graph() -> bool:
    """Whether the pass that is running keeps saved tensors, as ``retain_graph=True`` asks."""
    return bool(torch._C._autograd._get_current_graph_task_keep_graph())


def when_done(callback: Callable[[], None]) -> None:
    """Have the engine call back when the running pass is complete; it drops this when it fails."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)


def carry(key: str, value: Any) -> None:
    """Put something into the thread's own state, which follows the engine to its threads."""
    if not _is_held_when_carried():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))  # the one that torch will let go of
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
    """What `carry` has put there; None for nothing."""
    return torch._C._get_obj_in_tls(key) if torch._C._is_key_in_tls(key) else None


def within_a_pass(work: Callable[[], _T]) -> _T:
    """Run something where the engine runs the hooks of a pass that keeps saved tensors.

    What backward calls may ask for the number of its pass: a checkpointed part of a program is
    computed again once for each, and held until the pass has ended.

    Args:
        work: What to run. Grad mode is off meanwhile.

    Returns:
        What it returns.

    Raises:
        Exception: What it raises.
    """
    found: list[_T] = []
    with torch.inference_mode(False), torch.enable_grad():
        start = torch.zeros((), requires_grad=True).clone()
    node: Any = start.grad_fn
    node.register_prehook(lambda _: found.append(work()))
    torch.autograd.backward(start, retain_graph=True)
    return found[0]
