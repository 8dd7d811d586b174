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
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.autograd.graph import Node

from .nodes import NextFunctions

_Held = tuple[Node, tuple[int, ...]]

_held: dict[int, _Held] = {}  # id(node) -> the node, and the ids of its next functions
_tops: set[int] = set()  # held nodes whose consumers, if any, are not held here
_sweeping = threading.Lock()

# What sys.getrefcount says of an object that a tuple in a dict holds, and nothing else.
_probe: dict[int, tuple[object]] = {0: (object(),)}
_ALONE = sys.getrefcount(_probe[0][0])


def hold(nodes: Mapping[Node, NextFunctions], outputs: Iterable[torch.Tensor]) -> None:
    """Take charge of freeing ``nodes``.

    Args:
        nodes: All nodes reachable from some outputs, as `gradwalk.nodes.walk` gives them.
        outputs: The tensors the nodes were reached from; when one dies, a sweep follows.
    """
    sweep()
    children: set[int] = set()
    for node, following in nodes.items():
        below = tuple(id(child) for child, _ in following if child is not None)
        _held[id(node)] = (node, below)
        children.update(below)
    _tops.difference_update(children)
    _tops.update(key for node in nodes if (key := id(node)) not in children)
    for tensor in outputs:
        weakref.finalize(tensor, _sweep_soon).atexit = False


def sweep() -> None:
    """Let go of every held node that nothing else holds, consumers before producers."""
    if not _tops or not _sweeping.acquire(blocking=False):
        return  # nothing to do, or a sweep further up this very stack is doing it
    try:
        waiting = list(_tops)
        while waiting:
            key = waiting.pop()
            if key not in _held or sys.getrefcount(_held[key][0]) > _ALONE:
                continue
            below = _held.pop(key)[1]  # frees the node; its producers are held, so it ends there
            _tops.discard(key)
            _tops.update(child for child in below if child in _held)
            waiting.extend(below)
    finally:
        _sweeping.release()


def _sweep_pending(_: Any) -> int:
    sweep()
    return 0


_pending = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_sweep_pending)


def _sweep_soon() -> None:
    # A tensor's finalizer runs while the tensor still owns its node, so the sweep has to wait until
    # the interpreter is back between two instructions.
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
