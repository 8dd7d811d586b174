"""networkx' own dictionaries, the one place that reads them.

Its public views check and wrap at every step, which costs more than everything that is done with
what they give. The dictionaries are shared with the graph: read them, and write them only while
the graph is being built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx as nx


Neighbours = dict[int, dict[int, dict[int, dict[str, Any]]]]
"""Node -> neighbour -> key of the edge -> its attributes."""


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
