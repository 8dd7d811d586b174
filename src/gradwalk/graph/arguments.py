"""Read arguments of the user: integers, and nodes by id or name."""

from __future__ import annotations

import operator
from typing import Any

from ..english import nearest
from ..lazily import nx

MOST_NODES = 200_000  # the most nodes that are drawn by default


def read_int(value: Any, given: str, instead: str) -> int:
    """Convert any kind of integer to ``int``.

    Example:
        >>> read_int(3, "n was given ", "Give a number of steps.")
        3
        >>> read_int("3", "n was given ", "Give a number of steps.")
        Traceback (most recent call last):
        TypeError: n was given '3', of type str. Give a number of steps.
    """
    try:
        return operator.index(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(f"{given}{value!r}, of type {kind}. {instead}") from None


def read_most(max_nodes: Any) -> int | None:
    """Check the argument ``max_nodes``."""
    if max_nodes is None:
        return None
    instead = "Give the most nodes to draw, such as 1_000_000, or None for any number."
    count = read_int(max_nodes, "max_nodes was given ", instead)
    if count < 1:
        raise ValueError(f"max_nodes was given {count}. Give a number from 1, or None for any.")
    return count


def find_node(graph: nx.MultiDiGraph, node: int | str) -> int:
    """Return a node by its id or by the name of its tensor."""
    total = len(graph)
    if isinstance(node, str):
        found: list[int] = [i for i, name in graph.nodes(data="name") if name == node]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")
            raise ValueError(f"{len(found)} nodes have the name {node!r}: {ids}. Give an id.")
        names = [name for _, name in graph.nodes(data="name") if name]
        if not names:
            raise ValueError(
                f"No node is called {node!r}: no tensor of this graph has a name. Give an id "
                f"from 0 to {total - 1}, or names, as in names={{'w': w}}, where the graph is read."
            )
        near = nearest(node, names)
        raise ValueError(
            f"No node is called {node!r} in this graph. {f'{near} ' if near else ''}Give the "
            f"name of a tensor as the widget shows it, or an id from 0 to {total - 1}."
        )
    instead = f"Give its id, 0 to {total - 1}, or the name of its tensor."
    return read_id(node, "A node was given as ", total, instead)


def read_id(node: Any, given: str, total: int, instead: str) -> int:
    """Read the id of one of some nodes."""
    i = read_int(node, given, instead)
    if not 0 <= i < total:
        raise ValueError(f"{given}{i}, but this graph has nodes 0 to {total - 1} only.")
    return i
