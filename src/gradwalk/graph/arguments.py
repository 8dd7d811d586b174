"""Read arguments of the user: integers, and nodes by id or name."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

from ..english import nearest
from ..lazily import nx
from .labels import without_backward

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


def find_node(graph: nx.MultiDiGraph, node: int | str, *, more: Iterable[str] = ()) -> int:
    """Return a node by its id, or by a name that a picture or a finding shows.

    ``more`` are other names that the caller takes, for the error.

    In this order: the name of its tensor; "node 3", also after other words; the end of a name that
    no other has, "fc2.weight"; an operation that no other node has, "MulBackward0" or "Mul".
    """
    total = len(graph)
    if not isinstance(node, str):
        instead = f"Give its id, 0 to {total - 1}, or the name of its tensor."
        return read_id(node, "A node was given as ", total, instead)
    for fits in _READINGS:
        found: list[int] = [i for i, data in graph.nodes(data=True) if fits(node, i, data)]
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
    near = nearest(node, [*names, *more])
    raise ValueError(
        f"No node is called {node!r} in this graph. {f'{near} ' if near else ''}Give the "
        f"name of a tensor as the widget shows it, or an id from 0 to {total - 1}."
    )


def _is_numbered(text: str, node: int, _: dict[str, Any]) -> bool:
    return re.search(rf"(^|\()node {node}\)?$", text) is not None


_READINGS: tuple[Callable[[str, int, dict[str, Any]], bool], ...] = (
    lambda text, _, data: data["name"] == text,
    _is_numbered,
    lambda text, _, data: str(data["name"] or "").endswith(f".{text}"),
    lambda text, _, data: text in (data["op"], without_backward(data["op"])),
)


def read_id(node: Any, given: str, total: int, instead: str) -> int:
    """Read the id of one of some nodes."""
    i = read_int(node, given, instead)
    if not 0 <= i < total:
        raise ValueError(f"{given}{i}, but this graph has nodes 0 to {total - 1} only.")
    return i
