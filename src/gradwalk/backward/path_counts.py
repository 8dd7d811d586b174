"""How the outputs of a graph lead to its nodes: along how many paths, and over how many edges."""

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
"""Paths are counted up to here: an unrolled loop can have more than fit on a screen."""

_known: weakref.WeakKeyDictionary[nx.MultiDiGraph, Reach] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Reach:
    """What does not depend on the leaf that is looked at, and takes a walk over the whole graph.

    Attributes:
        paths: Per node, along how many paths the outputs lead to it, at most `MOST_COUNTED`.
        depths: The nodes near the outputs: over how many edges they are reached at least.
        first_edge: Per node, the place of its first edge among the edges of the graph.
    """

    paths: list[int]
    depths: dict[int, int]
    first_edge: list[int]

    def place(self, graph: nx.MultiDiGraph, source: int, target: int, input_nr: int) -> int:
        """The place of an edge among the edges of the graph."""
        own = [(to, nr) for to, edges in successors(graph)[source].items() for nr in edges]
        return self.first_edge[source] + own.index((target, input_nr))


def reach(graph: nx.MultiDiGraph, longest: int) -> Reach:
    """How the outputs of a captured graph lead to its nodes; computed once for each graph.

    Args:
        graph: What `gradwalk.capture` gave. It does not change any more.
        longest: Up to how many edges from the outputs a node is near; the same in all calls.
    """
    known = _known.get(graph)
    if known is None:
        roots = list(dict.fromkeys(graph.graph["roots"]))
        degrees = (sum(map(len, following.values())) for following in successors(graph).values())
        known = _known[graph] = Reach(
            _count_paths(graph, [node for node, _ in roots]),
            distances(successors(graph), {node for node, _ in roots}, longest),
            [0, *accumulate(degrees)],
        )
    return known


def distances(
    following: Mapping[int, Mapping[int, object]], starts: Iterable[int], longest: int
) -> dict[int, int]:
    """Over how many edges nodes are reached at least, from the nearest of some nodes.

    Args:
        following: Per node, where its edges lead.
        starts: The nodes to start from.
        longest: The most edges to follow.

    Returns:
        The number of edges, for each node that is near enough.
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
    # Ids are breadth-first, not topological, so a node waits until all that lead to it are counted.
    waiting = [sum(map(len, before.values())) for before in predecessors(graph).values()]
    done = [node for node, before in enumerate(waiting) if before == 0]
    for node in done:  # grows while we walk
        for target, edges in successors(graph)[node].items():
            paths[target] = min(paths[target] + paths[node] * len(edges), MOST_COUNTED)
            waiting[target] -= len(edges)
            if waiting[target] == 0:
                done.append(target)
    return paths
