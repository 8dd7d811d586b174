"""Align two graphs node by node, with the inputs that they share."""

from __future__ import annotations

from collections.abc import Mapping

import networkx as nx

from ...graph.adjacency import successors
from ...matching.match import match
from ...matching.sides import read_side
from .known_numbers import RunNumbers

_Place = tuple[int, int]
_Inputs = dict[int, dict[int, _Place]]
"""Node -> input_nr -> the node that produces the input, and the number of its output."""


class Aligned:
    """Two matched graphs.

    Attributes:
        here: The run of the first graph.
        there: The run of the second graph.
        pairs: Node of ``here`` -> its match in ``there``.
        order: The matched nodes of ``here``, in the order of the forward pass.
    """

    def __init__(self, here: RunNumbers, there: RunNumbers, pairs: Mapping[int, int]) -> None:
        """Read the inputs of the matched nodes."""
        self.here, self.there, self.pairs = here, there, pairs
        order = read_side(here.subject.graph).order
        self.order = [node for node in order if node in pairs]
        self._taken = set(pairs.values())
        self._here = _inputs(here.subject.graph, set(pairs))
        self._there = _inputs(there.subject.graph, self._taken)

    def swapped(self) -> Aligned:
        """Return the same alignment with the two graphs swapped."""
        return Aligned(self.there, self.here, {b: a for a, b in self.pairs.items()})

    def unmatched(self) -> tuple[list[int], list[int]]:
        """Return the unmatched nodes of each graph, ascending."""
        here, there = self.here.subject.graph, self.there.subject.graph
        return sorted(set(here) - self.pairs.keys()), sorted(set(there) - self._taken)

    def inputs(self, node: int) -> dict[int, int]:
        """Return input_nr -> the node of ``here`` that produces it, where both graphs agree.

        Nodes in between that only one graph has, such as a cast, are skipped.
        """
        theirs = self._there[self.pairs[node]]
        return {
            nr: at[0]
            for nr, at in self._here[node].items()
            if nr in theirs and self.pairs.get(at[0]) == theirs[nr][0] and at[1] == theirs[nr][1]
        }

    def is_aligned(self, node: int) -> bool:
        """Return whether all inputs of a node match directly, with equal shapes."""
        here = successors(self.here.subject.graph)[node]
        there = successors(self.there.subject.graph)[self.pairs[node]]
        is_direct = self.pairs.keys() >= here.keys() and self._taken >= there.keys()
        inputs = self.inputs(node)
        shapes = self.here.subject.graph.nodes, self.there.subject.graph.nodes
        return (
            is_direct
            and len(inputs) == len(self._here[node])
            and all(
                shapes[0][each]["shape"] == shapes[1][self.pairs[each]]["shape"]
                for each in inputs.values()
            )
        )


def aligned(a: RunNumbers, b: RunNumbers) -> Aligned:
    """Match two graphs by structure and names, and leaves also through casts before their use."""
    pairs = match(a.subject.graph, b.subject.graph).pairs
    graphs = a.subject.graph, b.subject.graph
    taken = set(pairs.values())
    here, there = _inputs(graphs[0], set(pairs)), _inputs(graphs[1], taken)
    for node, other in list(pairs.items()):
        for nr, (leaf, _) in here[node].items():
            found, _ = there[other].get(nr, (None, 0))
            if leaf in pairs or found is None or found in taken:
                continue
            mine, theirs = graphs[0].nodes[leaf], graphs[1].nodes[found]
            if mine["kind"] == theirs["kind"] == "leaf" and mine["shape"] == theirs["shape"]:
                pairs[leaf] = found
                taken.add(found)
    return Aligned(a, b, pairs)


def _inputs(graph: nx.MultiDiGraph, paired: set[int]) -> _Inputs:
    """Return the nearest paired node below each input of a paired node, else the path's end."""
    edges: _Inputs = {node: {} for node in graph}
    for node, child, edge in graph.edges(data=True):
        edges[node][edge["input_nr"]] = child, edge["output_nr"]
    known: dict[int, _Place] = {}

    def through(place: _Place) -> _Place:
        way = []
        while place[0] not in paired and len(edges[place[0]]) == 1:
            if place[0] in known:
                place = known[place[0]]
                break
            way.append(place[0])
            (place,) = edges[place[0]].values()
        known.update(dict.fromkeys(way, place))
        return place

    return {node: {nr: through(at) for nr, at in edges[node].items()} for node in paired}
