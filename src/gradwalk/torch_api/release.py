"""Free deep graphs without deep recursion.

torch keeps a Python wrapper for every node that Python has accessed. torch frees chains of other
nodes in a loop, but a wrapped node frees its successors inside its own deallocation. About 40,000
nodes in a row overflow the usual 8 MB stack (a segmentation fault at ``del loss``), and 2,000
overflow the 512 KB of a thread on macOS. Wrappers can neither be removed nor weakly referenced.

So some nodes of a large graph get a `Below` in their ``metadata``, which holds the node's
successors. The node holds these anyway, so no graph lives longer, and Python's garbage collector
sees the same cycles (it sees through neither). But the recursion ends there. torch drops a node's
successors before its metadata, so they die with the `Below`. The first `Below` to die in a thread
frees them in a loop; those that die meanwhile add to the loop's list. Everything is freed when
``del loss`` returns, in every thread.

One node in 16 gets a `Below`, chosen at random, so that no structure of a graph can avoid them: on
a path of a million nodes, 500 in a row without one are practically impossible.
"""

from __future__ import annotations

import functools
import random
import sys
import threading
from collections.abc import Callable, Collection
from typing import Any

from torch.autograd.graph import Node

from . import samples
from .capability import aside

_SHALLOW = 500  # nodes; freeing that many in a row takes 200 KB of stack at most
_ONE_IN = 16
_KEY = "gradwalk.below"


def free_without_recursion(nodes: Collection[Node]) -> None:
    """Make torch free a graph without deep recursion. Calling it twice is fine."""
    if len(nodes) <= _SHALLOW or not _wrappers_stay():
        return
    draw = random.Random(0).random  # not the user's generator
    for node in nodes:
        following = node.next_functions if draw() < 1 / _ONE_IN else ()
        if following:
            known: Any = node.metadata
            known.setdefault(_KEY, Below([child for child, _ in following]))


# Its globals are default arguments, because the interpreter clears modules at exit.
def empty(held: list[Any], _freeing: Any = threading.local()) -> None:  # noqa: B008
    """Clear the list of a dying object, in a loop at any depth of nested deallocation.

    If this function already runs further up the stack, that call clears the list later.
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


class Below:
    """Holds the successors of a node as long as the node lives."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: list[Node | None]) -> None:
        self.nodes = nodes  # the successors

    # Bound here, because the interpreter clears modules before it ends.
    def __del__(self, _empty: Callable[[list[Any]], None] = empty) -> None:
        _empty(self.nodes)


@functools.cache
def _wrappers_stay() -> bool:
    """Whether this torch keeps a node's Python wrapper after its last Python reference."""
    tensor = aside(samples.product)
    return sys.getrefcount(tensor.grad_fn) > sys.getrefcount([object()][0])
