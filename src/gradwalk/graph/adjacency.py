"""Direct access to networkx' dictionaries; no other file uses them.

Its public views check and wrap at every step, which takes most of the time. The dictionaries belong
to the graph: write them only while the graph is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx as nx


Neighbours = dict[int, dict[int, dict[int, dict[str, Any]]]]
"""Node -> neighbour -> key of the edge -> its attributes."""


def copied(
    graph: nx.MultiDiGraph, more: Callable[[int], Mapping[str, Any]], edges: dict[str, Any]
) -> nx.MultiDiGraph:
    """Copy a graph so that changes do not affect the original.

    Args:
        graph: The graph.
        more: Further attributes of each node.
        edges: Further attributes of every edge.
    """
    import networkx as nx  # noqa: PLC0415  slow to import

    made = nx.MultiDiGraph(**graph.graph)
    nodes, following, before = attributes(made), successors(made), predecessors(made)
    for node, data in attributes(graph).items():
        nodes[node] = {**data, **more(node)}
        following[node], before[node] = {}, {}
    for node, targets in successors(graph).items():
        for target, between in targets.items():
            own = {key: {**edge, **edges} for key, edge in between.items()}
            following[node][target] = before[target][node] = own
    return made


def attributes(graph: nx.MultiDiGraph) -> dict[int, dict[str, Any]]:
    """Return the attributes of every node."""
    found: dict[int, dict[str, Any]] = graph._node
    return found


def successors(graph: nx.MultiDiGraph) -> Neighbours:
    """Return the outgoing edges of every node, in the direction of gradients."""
    found: Neighbours = graph._succ
    return found


def predecessors(graph: nx.MultiDiGraph) -> Neighbours:
    """Return the incoming edges of every node, from its consumers."""
    found: Neighbours = graph._pred
    return found


def edge_count(graph: nx.MultiDiGraph) -> int:
    """Return the number of edges."""
    return sum(len(between) for to in successors(graph).values() for between in to.values())
