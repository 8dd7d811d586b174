"""Find a node of a graph by its id or its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..english import nearest
from .integers import read_int

if TYPE_CHECKING:
    import networkx as nx


def find_node(graph: nx.MultiDiGraph, node: int | str) -> int:
    """Return a node by its id or by the name of its tensor."""
    total = len(graph)
    if isinstance(node, str):
        found: list[int] = [i for i, name in graph.nodes(data="name") if name == node]
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")
            raise ValueError(f"{len(found)} nodes have the name {node!r}: {listed}. Give an id.")
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
    i = read_int(node, "A node was given as ", instead)
    if not 0 <= i < total:
        raise ValueError(
            f"A node was given as {i}, but this graph has nodes 0 to {total - 1} only."
        )
    return i
