"""Freeing a graph that Python has looked at, without recursion.

torch keeps a Python wrapper for every node that Python has touched, and a chain of wrapped nodes is
freed recursively: 45,000 nodes deep with the usual 8 MB stack is a segmentation fault at
``del loss``, 3,000 on a thread's 512 KB stack. Chains that Python never touched are freed without
recursion. So every node that gradwalk walks is held here, and let go one at a time, consumers
first, once nothing but this file holds it: then no node ever takes its successors down with it.

A node that something else still holds (a tensor, another graph, a variable) has a higher reference
count, because torch's C++ side counts as one more reference. Sweeps run after the last output of a
capture died, at the end of each garbage collection, and whenever gradwalk is called.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import sys
import threading
import weakref
from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch.autograd.graph import Node

from .outputs import Output

_held: dict[int, Node] = {}  # by id()
_tops: set[int] = set()  # ids of held nodes that a sweep starts from
_watched: dict[int, weakref.ref[torch.Tensor]] = {}  # outputs whose death a sweep follows
_sweeping = threading.Lock()

# What sys.getrefcount says of an object that a dict holds, and nothing else.
_probe: dict[int, object] = {0: object()}
_ALONE = sys.getrefcount(_probe[0])


def hold(nodes: Collection[Node], outputs: Iterable[Output]) -> None:
    """Take charge of freeing ``nodes``.

    Args:
        nodes: All nodes reachable from some outputs.
        outputs: The places the nodes were reached from; when a tensor among them dies, a sweep
            follows.
    """
    sweep()
    _held.update(zip(map(id, nodes), nodes, strict=True))
    for output in outputs:
        _tops.add(id(output.node))
        if output.tensor is not None:
            watch = weakref.ref(output.tensor, _sweep_soon)
            _watched[id(watch)] = watch


def sweep() -> None:
    """Let go of every held node that nothing else holds, consumers before producers."""
    if not _tops or not _sweeping.acquire(blocking=False):
        return  # nothing to do, or a sweep further up this very stack is doing it
    try:
        waiting = list(_tops)
        while waiting:
            key = waiting.pop()
            if key not in _held or sys.getrefcount(_held[key]) > _ALONE:
                continue
            below = _producers(_held[key])
            del _held[key]  # frees the node; its producers are held, so it ends there
            _tops.discard(key)
            _tops.update(child for child in below if child in _held)
            waiting.extend(below)
    finally:
        _sweeping.release()


def _producers(node: Node) -> list[int]:
    try:
        return [id(child) for child, _ in node.next_functions if child is not None]
    except RuntimeError:
        # In older torch the wrapper of a custom Function outlives its node and cannot be asked.
        return list(_held)


def _sweep_pending(_: Any) -> int:
    sweep()
    return 0


_pending = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_sweep_pending)


def _sweep_soon(dead: weakref.ref[torch.Tensor]) -> None:
    del _watched[id(dead)]
    # A tensor still owns its node while its weak references are told, so the sweep has to wait
    # until the interpreter is back between two instructions.
    ctypes.pythonapi.Py_AddPendingCall(_pending, None)


def _after_collection(phase: str, _: dict[str, int]) -> None:
    if phase == "stop":
        sweep()


@atexit.register
def _never_free() -> None:
    # The interpreter clears modules in no useful order; what is still held then stays until the
    # process ends.
    gc.callbacks.remove(_after_collection)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_held))


gc.callbacks.append(_after_collection)
