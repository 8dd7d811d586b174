"""Align two graphs node by node, with the inputs that they share."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch

from ...graph.adjacency import predecessors, successors, walk
from ...lazily import nx
from ...matching.match import match, read_side
from ...torch_api.saved_tensors import read_saved
from ...torch_api.signatures import call_arguments
from ...torch_api.tolerances import tolerances
from .known_numbers import RunNumbers
from .tensor_distance import Number, TensorDistance, tensor_distance

_DRAWN = {
    "NativeDropoutBackward0": "result1",
    "RreluWithNoiseBackward0": "noise",
    "RreluWithNoiseBackward1": "noise",
}
"""Operations that draw random numbers -> the saved attribute that holds them."""


def differing(both: Aligned, node: int) -> dict[str, tuple[Any, Any]]:
    """Return the arguments without gradient that differ between the two runs, by name."""
    mine, theirs = _given(both.here, node), _given(both.there, both.pairs[node])
    pairs = {name: (mine[name], theirs[name]) for name in mine if name in theirs}
    found = {name: pair for name, pair in pairs.items() if not _is_same(*pair)}
    eps = _epsilon(both.here, node), _epsilon(both.there, both.pairs[node])
    if max(eps) > 1.5 * min(eps):  # both are rounded
        found["eps"] = f"about {eps[0]:.1g}", f"about {eps[1]:.1g}"
    return found


def describe_difference(op: str, differs: dict[str, tuple[Any, Any]]) -> str:
    """Return a sentence on the first differing argument; empty for none."""
    if not differs:
        return ""
    name, (one, other) = next(iter(differs.items()))
    if _DRAWN.get(op) == name:
        return "It draws random numbers, which differ between the two."
    if _is_mask(one) and _is_mask(other):
        return (
            f"Its argument {name} looks like a dropout mask: its random numbers differ between "
            "the two."
        )
    numbers = [_one_number(each) for each in (one, other)]
    if None not in numbers:
        return f"Its argument {name} is {numbers[0]} in a, and {numbers[1]} in b."
    return f"Its argument {name}, which needs no gradient, differs between the two."


def _given(known: RunNumbers, node: int) -> dict[str, Any]:
    """The arguments without gradient that a node saved."""
    live = known.source.autograd
    if live is None:
        return {}
    op = known.source.graph.nodes[node]["op"]
    names = call_arguments(op) | {_DRAWN.get(op, "")}
    return {
        saved.name: saved.value
        for saved in read_saved(live.nodes[node], names)
        if saved.name in names and saved.value is not None and not saved.changed
        if not (isinstance(saved.value, torch.Tensor) and saved.value.requires_grad)
    }


def _epsilon(known: RunNumbers, node: int) -> float:
    """The ``eps`` that a norm did not save, from its input and result; NaN if rounding hides it.

    That is a layer norm's, and from torch 2.14 on a group norm's.
    """
    live, op = known.source.autograd, known.source.graph.nodes[node]["op"]
    if live is None or op not in ("NativeLayerNormBackward0", "NativeGroupNormBackward0"):
        return math.nan
    saved = {each.name: each.value for each in read_saved(live.nodes[node]) if not each.changed}
    given, rstd = saved.get("input"), saved.get("result2")
    if given is None or rstd is None or "eps" in saved:
        return math.nan
    given = given.detach().double()
    if op == "NativeLayerNormBackward0":
        normalized = given.flatten(-len(saved["normalized_shape"]))
    else:
        normalized = given.reshape(saved["N"] * saved["group"], -1)
    variance = normalized.var(-1, unbiased=False).flatten()
    found = float((rstd.detach().double().flatten() ** -2 - variance).median())
    return found if found > 1e-6 * float(variance.median()) else math.nan


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) != isinstance(other, torch.Tensor):
        return True  # a number and a tensor cannot be compared
    if not isinstance(one, torch.Tensor):
        return bool(one == other) or repr(one) == repr(other) == "nan"
    allowed = tolerances(one.dtype, other.dtype)
    apart = tensor_distance(Number(one), Number(other), allowed)
    return apart is None or not apart.leaves


def _is_mask(value: Any) -> bool:
    """Whether all numbers are 0 or one scale above 1, as in the mask of dropout."""
    if not isinstance(value, torch.Tensor) or value.numel() < 2 or value.is_complex():
        return False
    most = value.max()
    is_scaled = float(most) > 1 and math.isfinite(float(most))
    return is_scaled and bool(((value == 0) | (value == most)).all())


def _one_number(value: Any) -> str | None:
    if isinstance(value, torch.Tensor):
        return f"{value.item():.6g}" if value.numel() == 1 and not value.is_complex() else None
    return f"{value:.6g}" if isinstance(value, float) else str(value)


_OutputKey = tuple[int, int]
_Inputs = dict[int, dict[int, _OutputKey]]
"""Node -> arg_nr -> the node that produces the input, and the number of its output."""


class Aligned:
    """Two matched graphs.

    Attributes:
        here: The run of the first graph.
        there: The run of the second graph.
        pairs: Node of ``here`` -> its match in ``there``.
        order: The matched nodes of ``here``, in the order of the forward pass.
    """

    def __init__(self, here: RunNumbers, there: RunNumbers, pairs: Mapping[int, int]) -> None:
        self.here, self.there, self.pairs = here, there, pairs
        order = read_side(here.source.graph).order
        self.order = [node for node in order if node in pairs]
        self._taken = set(pairs.values())
        self._here = _inputs(here.source.graph, set(pairs))
        self._there = _inputs(there.source.graph, self._taken)

    def swapped(self) -> Aligned:
        """Return the same alignment with the two graphs swapped."""
        return Aligned(self.there, self.here, {b: a for a, b in self.pairs.items()})

    def without(self, nodes: Collection[int]) -> Aligned:
        """Return the alignment without some pairs, given by their nodes of ``here``."""
        pairs = {one: other for one, other in self.pairs.items() if one not in nodes}
        return Aligned(self.here, self.there, pairs)

    def unmatched(self) -> tuple[list[int], list[int]]:
        """Return the unmatched nodes of each graph, ascending."""
        here, there = self.here.source.graph, self.there.source.graph
        return sorted(set(here) - self.pairs.keys()), sorted(set(there) - self._taken)

    def inputs(self, node: int) -> dict[int, int]:
        """Return arg_nr -> the node of ``here`` that produces it, where both graphs agree."""
        theirs = self._there[self.pairs[node]]
        return {
            nr: at[0]
            for nr, at in self._here[node].items()
            if nr in theirs and self.pairs.get(at[0]) == theirs[nr][0] and at[1] == theirs[nr][1]
        }

    def is_aligned(self, node: int) -> bool:
        """Return whether all inputs of a node match directly, with equal shapes."""
        here = successors(self.here.source.graph)[node]
        there = successors(self.there.source.graph)[self.pairs[node]]
        is_direct = self.pairs.keys() >= here.keys() and self._taken >= there.keys()
        inputs = self.inputs(node)
        mine, theirs = self.here.source.graph.nodes, self.there.source.graph.nodes
        pairs = ((mine[i]["shape"], theirs[self.pairs[i]]["shape"]) for i in inputs.values())
        is_whole = is_direct and len(inputs) == len(self._here[node])
        return is_whole and all(one == other for one, other in pairs)


def aligned(a: RunNumbers, b: RunNumbers) -> Aligned:
    """Match two graphs by structure and names, and leaves also through casts before their use."""
    pairs = match(a.source.graph, b.source.graph).pairs
    graphs = a.source.graph, b.source.graph
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


Distances = tuple[TensorDistance | None, TensorDistance | None]
"""The distance of a node's value and of its gradient."""


_OTHER = 0.1  # relative errors below this one are more likely errors than other tensors


def wrongly_paired(both: Aligned, distances: Mapping[int, Distances]) -> set[int]:
    """Return the nodes of ``here`` that are out of tolerance although all around them agree.

    A part of the graph may have another structure in the other run, for example eager and fused
    attention. If all values that it feeds agree, or all gradients that it passes on, it computes
    the same in another way, and what is out of tolerance in it has no counterpart.
    """
    graph = both.here.source.graph
    below, above = successors(graph), predecessors(graph)
    ends = {node for node, kind in graph.nodes(data="kind") if kind != "op"}
    ends |= {node for node, _ in graph.graph["roots"]}
    found: set[int] = set()
    for which, further in enumerate((above, below)):
        known = {node: each[which] for node, each in distances.items() if each[which] is not None}
        apart = {n for n, each in known.items() if each and each.leaves and each.error > _OTHER}
        free = apart | (graph.nodes - known.keys())
        for part in nx.weakly_connected_components(graph.subgraph(free)) if apart else ():
            is_other = any(n not in both.pairs or not both.is_aligned(n) for n in part)
            is_inner = is_other and part & apart and not part & ends
            if is_inner and _agree(part, further, distances, which):
                found |= {
                    node
                    for node in part & distances.keys()
                    if node in apart
                    or (not both.is_aligned(node) and any(d and d.leaves for d in distances[node]))
                }
    return found


def _agree(
    part: set[int],
    neighbours: Mapping[int, Iterable[int]],
    distances: Mapping[int, Distances],
    which: int,
) -> bool:
    """Whether the nearest known values or gradients around a part are all within tolerance."""

    def known(node: int) -> TensorDistance | None:
        return distances.get(node, (None, None))[which]

    around = {other for node in part for other in neighbours[node]} - part
    met = walk(around, lambda n: set(neighbours[n]) - part if known(n) is None else ())
    return all(not d.leaves if (d := known(n)) is not None else bool(neighbours[n]) for n in met)


def _inputs(graph: nx.MultiDiGraph, paired: set[int]) -> _Inputs:
    """Return the nearest paired node below each input of a paired node, else the path's end."""
    edges: _Inputs = {node: {} for node in graph}
    for node, child, edge in graph.edges(data=True):
        edges[node][edge["arg_nr"]] = child, edge["output_nr"]
    known: dict[int, _OutputKey] = {}

    def through(place: _OutputKey) -> _OutputKey:
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
