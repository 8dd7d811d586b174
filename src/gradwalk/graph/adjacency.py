"""networkx' own dictionaries, the one place that reads them.

Its public views check and wrap at every step, which costs more than everything that is done with
what they give. The dictionaries are shared with the graph: read them, and write them only while
the graph is being built.
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
    """A graph that can be changed without changing the one it is a copy of.

    Args:
        graph: What to copy.
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
    """The attributes of every node."""
    found: dict[int, dict[str, Any]] = graph._node
    return found


def successors(graph: nx.MultiDiGraph) -> Neighbours:
    """The edges out of every node: the way gradients flow, to what it takes."""
    found: Neighbours = graph._succ
    return found


def predecessors(graph: nx.MultiDiGraph) -> Neighbours:
    """The edges into every node: from the nodes that take what it gives."""
    found: Neighbours = graph._pred
    return found


def edge_count(graph: nx.MultiDiGraph) -> int:
    """How many edges there are."""
    return sum(len(between) for to in successors(graph).values() for between in to.values())
