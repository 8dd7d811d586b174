"""Count the paths and edges from the outputs of a graph to its nodes."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from ..graph.adjacency import predecessors, successors

if TYPE_CHECKING:
    import networkx as nx

MOST_COUNTED = 10**15
"""Paths are counted up to this number: an unrolled loop can have very many."""

_known: weakref.WeakKeyDictionary[nx.MultiDiGraph, PathCounts] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class PathCounts:
    """Path counts that need a walk over the whole graph and serve all leaves.

    Attributes:
        paths: Per node, the number of paths from the outputs, at most `MOST_COUNTED`.
        depths: For nodes near the outputs, the smallest number of edges from an output.
        first_edge: Per node, the index of its first edge among the edges of the graph.
    """

    paths: list[int]
    depths: dict[int, int]
    first_edge: list[int]

    def place(self, graph: nx.MultiDiGraph, source: int, target: int, input_nr: int) -> int:
        """Return the index of an edge among the edges of the graph."""
        own = [(to, nr) for to, edges in successors(graph)[source].items() for nr in edges]
        return self.first_edge[source] + own.index((target, input_nr))


def count_paths(graph: nx.MultiDiGraph, longest: int) -> PathCounts:
    """Count the paths from the outputs of a captured graph; computed once for each graph.

    Args:
        graph: The result of `gradwalk.capture`. It must not change any more.
        longest: The number of edges up to which a node is near; the same in all calls.
    """
    known = _known.get(graph)
    if known is None:
        roots = list(dict.fromkeys(graph.graph["roots"]))
        degrees = (sum(map(len, following.values())) for following in successors(graph).values())
        known = _known[graph] = PathCounts(
            _count_paths(graph, [node for node, _ in roots]),
            distances(successors(graph), {node for node, _ in roots}, longest),
            [0, *accumulate(degrees)],
        )
    return known


def distances(
    following: Mapping[int, Mapping[int, object]], starts: Iterable[int], longest: int
) -> dict[int, int]:
    """Return the smallest number of edges from some nodes to every near node.

    Args:
        following: The successors of each node.
        starts: The nodes to start from.
        longest: The most edges to follow.

    Returns:
        The number of edges by node.
    """
    found = dict.fromkeys(starts, 0)
    waiting = list(found)
    for node in waiting:  # grows while we walk
        further = found[node] + 1
        if further > longest:
            break
        for target in following[node]:
            if target not in found:
                found[target] = further
                waiting.append(target)
    return found


def _count_paths(graph: nx.MultiDiGraph, roots: list[int]) -> list[int]:
    paths = [0] * len(graph)
    for root in roots:
        paths[root] += 1
    # Ids are breadth-first, not topological, so a node waits until all predecessors are counted.
    waiting = [sum(map(len, before.values())) for before in predecessors(graph).values()]
    done = [node for node, before in enumerate(waiting) if before == 0]
    for node in done:  # grows while we walk
        for target, edges in successors(graph)[node].items():
            paths[target] = min(paths[target] + paths[node] * len(edges), MOST_COUNTED)
            waiting[target] -= len(edges)
            if waiting[target] == 0:
                done.append(target)
    return paths
