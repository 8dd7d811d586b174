"""Direct access to networkx' dictionaries; no other file uses them.

Its public views check and wrap at every step, which takes most of the time. The dictionaries belong
to the graph: write them only while the graph is built.
"""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

from ..lazily import nx

_T = TypeVar("_T")

Neighbours = dict[int, dict[int, dict[int, dict[str, Any]]]]
"""Node -> neighbour -> key of the edge -> its attributes."""


def copied(
    graph: nx.MultiDiGraph, more: Callable[[int], Mapping[str, Any]], edges: dict[str, Any]
) -> nx.MultiDiGraph:
    """Copy a graph, with more attributes of each node and of every edge."""
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


MOST_COUNTED = 10**15  # paths are counted up to this number: an unrolled loop can have very many

_known: weakref.WeakKeyDictionary[nx.MultiDiGraph, PathCounts] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class PathCounts:
    """Path counts that need a walk over the whole graph and serve all leaves."""

    paths: list[int]  # per node, the number of paths from the outputs, at most `MOST_COUNTED`
    # For nodes near the outputs, the smallest number of edges from an output.
    depths: dict[int, int]
    first_edge: list[int]  # per node, the index of its first edge among the edges of the graph

    def place(self, graph: nx.MultiDiGraph, source: int, target: int, arg_nr: int) -> int:
        """Return the index of an edge among the edges of the graph."""
        own = [(to, nr) for to, edges in successors(graph)[source].items() for nr in edges]
        return self.first_edge[source] + own.index((target, arg_nr))


def count_paths(graph: nx.MultiDiGraph, longest: int) -> PathCounts:
    """Count the paths from the outputs of a captured graph; computed once for each graph."""
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


def walk(starts: Iterable[_T], following: Callable[[_T], Iterable[_T]]) -> Iterator[_T]:
    """Yield some nodes and all that follow them, each once, the nearest first."""
    waiting = list(dict.fromkeys(starts))
    seen = set(waiting)
    for node in waiting:  # grows while we walk
        yield node
        for each in following(node):
            if each not in seen:
                seen.add(each)
                waiting.append(each)


def distances(
    following: Mapping[int, Mapping[int, object]], starts: Iterable[int], longest: float = math.inf
) -> dict[int, int]:
    """Return the smallest number of edges, at most ``longest``, from some nodes to every node."""
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


_lock = threading.Lock()
_pausing = 0  # threads that are in `collector_paused`
_was_enabled = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Return a context in which no thread collects garbage.

    A graph has many small long-lived objects: collecting while they are created doubles the time.
    The new objects still count towards the next collection.
    """
    global _pausing, _was_enabled  # noqa: PLW0603
    with _lock:
        if not _pausing:
            _was_enabled = gc.isenabled()
        _pausing += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _pausing -= 1
            if not _pausing and _was_enabled:
                gc.enable()
