"""Access to torch's autograd engine while a backward pass runs."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import torch
from torch.autograd.graph import Node
from torch.utils.hooks import RemovableHandle

from . import samples
from .capability import capability, is_there

_T = TypeVar("_T")

_PROBE = "gradwalk: whether what is carried is held"

NO_TASK = -1

_UNRECORDED = "The steps of backward passes are not recorded"


@capability("torch._C._current_graph_task_id", otherwise=lambda: NO_TASK, lost=_UNRECORDED)
def current_task(task: Any) -> Callable[[], int]:
    """Return the number of the backward pass whose hook is running; `NO_TASK` elsewhere."""
    if task() != NO_TASK:
        raise ValueError("torch names a pass where none runs.")
    return cast("Callable[[], int]", task)


@capability("torch._C._current_autograd_node", otherwise=lambda: None, lost=_UNRECORDED)
def current_node(node: Any) -> Callable[[], Node | None]:
    """Return the node that the engine runs in this thread, or None."""
    if node() is not None:
        raise ValueError("torch names a node where none runs.")
    return cast("Callable[[], Node | None]", node)


@capability("torch.autograd._get_sequence_nr", otherwise=lambda: -1)
def next_sequence_nr(number: Any) -> Callable[[], int]:
    """Return the sequence number of this thread's next autograd node."""
    before = number()
    samples.product()
    if number() <= before:
        raise ValueError("torch does not count the nodes that it makes.")
    return cast("Callable[[], int]", number)


def is_within_pass() -> bool:
    """Whether a hook of a backward pass runs in this thread."""
    return current_task() != NO_TASK or current_node() is not None


def why_unrecorded() -> str | None:
    """Return why no step of a backward pass can be recorded with this torch, as a clause, or None.

    The hooks of a pass need its number, the node that runs, and the end of the pass.
    """
    if is_there(current_task, current_node) and (_public_queue() or is_there(_queue)):
        return None
    return f"torch {torch.__version__} does not tell hooks which pass and node they belong to"


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


@capability("torch._C._autograd._get_current_graph_task_keep_graph", otherwise=lambda: False)
def keeps_graph(keeps: Any) -> Callable[[], bool]:
    """Whether the running pass keeps saved tensors (``retain_graph=True``); False if unknown."""
    keeps()
    return cast("Callable[[], bool]", keeps)


def when_done(callback: Callable[[], None]) -> None:
    """Call back when the running pass is complete, but not when it fails."""
    (_public_queue() or _queue)(callback)


def _public_queue() -> Callable[[Callable[[], None]], None] | None:
    """Return torch's function to call back at the end of a pass, from 2.15 on."""
    return getattr(torch.autograd.graph, "queue_callback", None)


def _no_queue(_: Callable[[], None]) -> None:
    raise RuntimeError(f"torch {torch.__version__} does not tell when a backward pass ends.")


@capability(
    "torch.autograd.Variable._execution_engine.queue_callback",
    otherwise=_no_queue,
    lost=_UNRECORDED,
)
def _queue(queue: Any) -> Callable[[Callable[[], None]], None]:
    # Not tried: that needs a pass, and running one here would forbid the program to fork.
    return cast("Callable[[Callable[[], None]], None]", queue)


@capability(
    "torch._C._stash_obj_in_tls",
    "torch._C._get_obj_in_tls",
    "torch._C._is_key_in_tls",
    otherwise=lambda _key, _value: None,
    lost="The steps of backward passes on other devices than the CPU are not recorded",
)
def carry(stash: Any, _: Any, is_key: Any) -> Callable[[str, Any], None]:
    """Store an object in the thread-local state that the engine copies to its threads."""
    is_key(_PROBE)

    def carrying(key: str, value: Any) -> None:
        if not _is_held_when_carried(stash):
            # The reference that torch will release.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
        stash(key, value)

    return carrying


@functools.cache
def _is_held_when_carried(stash: Callable[[str, Any], None]) -> bool:
    """Whether torch takes a reference to the object; up to 2.11 it only releases one.

    The object would be freed while it is in use, and the process would crash.
    """
    probe = object()
    before = sys.getrefcount(probe)
    stash(_PROBE, probe)
    is_held = sys.getrefcount(probe) > before
    if not is_held:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(probe))
    return is_held


@capability("torch._C._get_obj_in_tls", "torch._C._is_key_in_tls", otherwise=lambda _key: None)
def carried(get: Any, is_key: Any) -> Callable[[str], Any]:
    """Return the object that `carry` stored, or None."""
    is_key(_PROBE)
    return lambda key: get(key) if is_key(key) else None


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
