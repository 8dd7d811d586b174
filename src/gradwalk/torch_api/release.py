"""Deep graphs that Python has looked at are freed without deep recursion.

torch keeps a Python wrapper for every node that Python has touched. Chains of untouched nodes are
freed in a loop, but each wrapped node frees its successors from within its own deallocation: some
40,000 nodes in a row overflow the usual 8 MB stack (a segmentation fault at ``del loss``), 2,000
the 512 KB of a thread on macOS. Wrappers cannot be taken away again, nor weakly referenced.

So some of the nodes of a large graph get a `_Below` in their ``metadata``, which holds the node's
successors. It holds nothing that the node itself does not hold, exactly as long as the node lives:
no graph lives longer for it, and Python's collector judges every cycle as it would without (it
sees through neither). What it changes is where the recursion ends. torch drops a node's successors
before its metadata, so they survive that, and die when the `_Below` does: there the first one of
this thread frees them in a loop, and those met meanwhile only add to what the loop has to do. All
is gone when ``del loss`` returns, in every thread, and nothing is held or done at any other time.

Which nodes get one is drawn by lot, one in 16, so that no structure of a graph can dodge them: of
a million nodes on one path, more than 500 in a row without one are not to be expected ever.
"""

from __future__ import annotations

import functools
import random
import sys
import threading
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.autograd.graph import Node
from torch.utils._python_dispatch import _disable_current_modes

_SHALLOW = 500  # nodes; freeing that many in a row takes 200 KB of stack at most
_ONE_IN = 16
_KEY = "gradwalk.below"


def free_without_recursion(nodes: Collection[Node]) -> None:
    """See to it that a graph is freed without deep recursion once it dies. Twice is fine.

    Args:
        nodes: All nodes of the graph that Python has touched.
    """
    if len(nodes) <= _SHALLOW or not _wrappers_stay():
        return
    draw = random.Random(0).random  # not the user's generator
    for node in nodes:
        following = node.next_functions if draw() < 1 / _ONE_IN else ()
        if following:
            known: Any = node.metadata
            known.setdefault(_KEY, _Below([child for child, _ in following]))


# What it needs is bound here, because the interpreter clears modules before it ends.
def empty(held: list[Any], _freeing: Any = threading.local()) -> None:  # noqa: B008
    """Let go of what a dying object holds, in a loop however deep the dying goes.

    Args:
        held: What it holds. When the object dies because this function, further up the stack, is
            emptying another list, then this one is emptied after that.
    """
    waiting = getattr(_freeing, "waiting", None)
    if waiting is not None:
        waiting.append(held)
        return
    _freeing.waiting = waiting = [held]
    try:
        while waiting:
            waiting.pop().clear()
    finally:
        _freeing.waiting = None


class _Below:
    """The successors of a node, for as long as the node lives."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: list[Node | None]) -> None:
        self.nodes = nodes

    # Bound here, because the interpreter clears modules before it ends.
    def __del__(self, _empty: Callable[[list[Any]], None] = empty) -> None:
        _empty(self.nodes)


@functools.cache
def _wrappers_stay() -> bool:
    """Whether this torch keeps the wrapper of a node once Python has let go of it."""
    with _disable_current_modes(), torch.inference_mode(False), torch.enable_grad():
        tensor = torch.ones(1, requires_grad=True).mul(1)
    return sys.getrefcount(tensor.grad_fn) > sys.getrefcount([object()][0])
