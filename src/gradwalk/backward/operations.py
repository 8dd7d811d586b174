"""What the backward of a custom Function does, call by call, while a recorded pass runs it.

Only these nodes are looked into: what a node of torch's own does is known by its formula. The node
of a part checkpointed with ``use_reentrant=True`` is one of them: what it computes again, and the
backward pass of its own that it runs, are told without running anything twice.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import Node

from ..graph.capture import Capture
from ..graph.checkpoints import reentrant_function
from ..graph.engine import running_node
from ..graph.modes import telling, unseen
from ..graph.nodes import custom_function, is_of_torch, node_class, op_name
from ..graph.summary import summarise
from ..wire import TensorSummary

MOST = 100
"""So many operations of a node are told one by one."""


@dataclass(frozen=True)
class Operation:
    """One operation that ran.

    Attributes:
        called: What torch calls it, "aten.mul.Tensor".
        behind: The node of a pass within the node's own backward that asked for it; None for none.
        gave: What it gave, if that is a tensor.
    """

    called: str
    behind: str | None
    gave: TensorSummary | None


@dataclass
class Operations:
    """The operations of one node.

    Attributes:
        listed: The first of them.
        count: How many there were.
    """

    listed: list[Operation] = field(default_factory=list)
    count: int = 0


def is_looked_into(node: Node) -> bool:
    """Whether a node's backward is Python of somebody's own, or a reentrant checkpoint."""
    cls: type = type(node)
    custom = custom_function(node) if node_class(cls).is_function else None
    if custom is None:
        return False
    return not is_of_torch(custom) or reentrant_function(node) is not None


@contextmanager
def noting_operations(captured: Capture, into: dict[int, Operations]) -> Iterator[None]:
    """Within it the operations of custom backwards are noted; afterwards the nodes are as before.

    Args:
        captured: The graph that backward runs through.
        into: Gets those of each node that runs.
    """
    looked_into: list[Any] = []
    try:
        for i, node in enumerate(captured.nodes):
            if is_looked_into(node):
                # The engine asks the node for it, so the node's own comes before its class's. Until
                # it is taken away again the node holds itself by it.
                node.apply = _noted(node.apply, op_name(node), i, into)  # type: ignore[attr-defined]
                looked_into.append(node)
        yield
    finally:
        for node in looked_into:
            with contextlib.suppress(AttributeError):
                del node.apply


def _noted(
    apply: Callable[..., Any], name: str, i: int, into: dict[int, Operations]
) -> Callable[..., Any]:
    def noted(*grads: Any) -> Any:
        found = into[i] = Operations()
        with telling(functools.partial(_note, found, name)):
            return apply(*grads)

    return noted


def _note(found: Operations, name: str, func: Any, result: Any) -> None:
    found.count += 1
    if found.count > MOST:
        return
    with contextlib.suppress(Exception), unseen(), torch.no_grad():
        first = result[0] if isinstance(result, (tuple, list)) and result else result
        gave = summarise(first) if isinstance(first, torch.Tensor) else None
        behind = running_node()
        found.listed.append(Operation(str(func), None if behind in (None, name) else behind, gave))
