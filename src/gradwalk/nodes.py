"""What gradwalk reads off an autograd ``Node``: the one file that touches torch's internals."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.autograd.graph import Node, get_gradient_edge

from .signatures import argument_names

Edge = tuple[Node, int]
"""A place in the graph: a node and which of its outputs."""


NextFunctions = tuple[tuple[Node | None, int], ...]
"""What ``Node.next_functions`` gives: per forward input, who made it; None if it needs no grad."""


def gradient_edge(tensor: torch.Tensor) -> Edge:
    """The node that made a tensor, or that accumulates into it when it is a leaf.

    Args:
        tensor: A tensor that requires grad.

    Returns:
        The node and which of its outputs the tensor is.
    """
    edge = get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def walk(roots: Iterable[Node]) -> dict[Node, NextFunctions]:
    """All nodes that gradients can reach from ``roots``, breadth-first and each once.

    Iterative, so that depth is limited by memory alone. Roots come first, in the order given.

    Args:
        roots: Autograd nodes; one may stand several times.

    Returns:
        Each node with its ``next_functions``. A node's place in this order is its id everywhere in
        gradwalk.
    """
    order = list(dict.fromkeys(roots))
    seen = set(order)
    found: dict[Node, NextFunctions] = {}
    for node in order:  # grows while we walk
        found[node] = node.next_functions
        for child, _ in found[node]:
            if child is not None and child not in seen:
                seen.add(child)
                order.append(child)
    return found


def op_name(node: Node) -> str:
    """The class name of a node, "MulBackward0"; of a nameless C++ function, its own word."""
    name = type(node).__name__
    return node.name() if name == "CppFunction" else name


def leaf_tensor(node: Node) -> torch.Tensor | None:
    """The tensor an AccumulateGrad node accumulates into; None for every other node."""
    return node.variable if type(node).__name__ == "AccumulateGrad" else None  # type: ignore[attr-defined]


def input_names(node: Node, following: NextFunctions) -> Sequence[str | None]:
    """The forward argument behind each of a node's next functions; None where unknown."""
    forward = getattr(node, "_forward_cls", None)
    if forward is not None:
        return _function_argument_names(
            node, forward, [child is not None for child, _ in following]
        )
    return argument_names(type(node).__name__, len(following))


def _function_argument_names(node: Any, forward: Any, edges: list[bool]) -> list[str | None]:
    """Names for a custom Function, whose next functions are its tensor arguments only.

    ``needs_input_grad`` covers every argument, tensors or not. Its True entries are exactly the
    next functions that are not None; a None is named only when it can be no other argument.
    """
    unknown: list[str | None] = [None] * len(edges)
    try:
        parameters = list(inspect.signature(forward.forward).parameters.values())
        needed = list(node.needs_input_grad)
    except (AttributeError, TypeError, ValueError):
        return unknown
    with_context = forward.setup_context is torch.autograd.Function.setup_context
    names = _spread(parameters[1:] if with_context else parameters, len(needed))
    if len(names) != len(needed) or sum(edges) != sum(needed):
        return unknown
    with_grad = iter([name for name, need in zip(names, needed, strict=True) if need])
    without = [name for name, need in zip(names, needed, strict=True) if not need]
    certain = iter(without if len(without) == edges.count(False) else [])
    return [next(with_grad) if edge else next(certain, None) for edge in edges]


def _spread(parameters: list[inspect.Parameter], count: int) -> list[str]:
    """Positional parameter names, a ``*args`` spread over what is left of ``count``."""
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
        else:
            names.append(parameter.name)
    return names[:count]


@functools.cache
def saved_names(cls: type) -> tuple[str, ...]:
    """What a C++ node class keeps for backward, tensors first: ``self``, ``other``, ``dim``, ..."""
    names = [a.removeprefix("_saved_") for a in dir(cls) if a.startswith("_saved_")]
    return tuple(sorted(names, key=lambda name: not hasattr(cls, f"_raw_saved_{name}")))


@functools.cache
def keeps_tensors(cls: type) -> bool:
    """Whether nodes of this class may keep tensors, not only plain values, for backward."""
    return any(a.startswith("_raw_saved_") for a in dir(cls))
