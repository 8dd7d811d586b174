"""`held`: the autograd graphs that are alive, and who holds them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch.autograd.graph import Node

from ...checks.held_graph import HeldGraph
from ...checks.memory import freed_bytes
from ...graph.adjacency import collector_paused
from ...graph.names import Names, caller_names
from ...graph.outputs import read_outputs
from ...result import make
from ...torch_api.modes import grad_mode_kept, unseen
from ...torch_api.nodes import sequence_nr
from ...tracing.records import find_record, has_watched
from ...types import Outputs
from .holders import Holder, advice_for, collapsed, holders_of, unnamed
from .living import LivingGraph, living_graphs
from .referrers import Referrers

Number = tuple[str, int | None]
"""Class and sequence number of a node, which tell it from others without a reference to it."""


@overload
def held(*, stacklevel: int = ...) -> list[HeldGraph]: ...
@overload
def held(loss: Outputs, *, stacklevel: int = ...) -> HeldGraph: ...
def held(loss: Outputs | None = None, *, stacklevel: int = 1) -> list[HeldGraph] | HeldGraph:
    """Find who holds autograd graphs, and how much memory they keep.

    Holders are found through Python's collector, up to a name: a variable, an attribute, an item of
    a list or dict, the variable of a closure, of a generator or of the traceback of an exception, a
    hook, ``ctx``, the state of an optimizer, a ``.grad`` that has a graph. Holders inside C++ code
    cannot be seen. Nothing is kept alive, and no garbage collection starts.

    Args:
        loss (Outputs, optional): A tensor with a graph, or several in a list or dict, to learn who
            holds that graph. By default all graphs of this process.
        stacklevel (int, optional): The frame whose variables give names, as for ``warnings.warn``:
            1 is the caller, and a function that wraps this one passes 2. Default: ``1``.

    Returns:
        For a tensor, its graph. Else a list: the most memory first, and graphs that one list, dict
        or object holds as one.

    Raises:
        TypeError: ``loss`` carries no autograd graph.
        ValueError: ``loss`` does not require grad, or is a leaf.

    Example::

        >>> import torch, gradwalk
        >>> w = torch.ones(1000, requires_grad=True)
        >>> losses = [(w * step).exp().sum() for step in range(3)]
        >>> found = gradwalk.held(losses[0])
        >>> found.graphs, found.bytes
        (1, 4012)
        >>> found.advice
        'Keep `loss.item()` or `loss.detach()` there instead.'
        >>> del losses
    """
    names = caller_names(None, "held", stacklevel)
    with collector_paused():
        if loss is None:
            results = [each.result() for each in held_graphs(names)]
            return sorted(results, key=lambda each: -each.bytes)
        numbers = {number_of(output.node) for output in read_outputs((loss,), "held")}
        groups = held_graphs(names, among=numbers)
        if not groups:
            raise ValueError(
                "held() was given a leaf, which has no graph. Give a tensor computed from it."
            )
        for other in groups[1:]:
            groups[0].add(other)
        return groups[0].result()


@dataclass
class Group:
    """Graphs that are held together."""

    graphs: list[LivingGraph]  # the graphs, the oldest first
    results: list[torch.Tensor]  # the tensors that keep them alive
    holders: list[Holder]  # the ways in which they are held
    others: list[str]  # the same for graphs that no name leads to, in words
    age: int = 0  # a number that is larger for a later graph
    line: str | None = None  # the line that computed the latest result, if that is known

    def add(self, other: Group) -> None:
        """Add the graphs of another group."""
        self.graphs += other.graphs
        self.results += other.results
        self.holders += other.holders
        self.others += other.others
        if other.age >= self.age:
            self.age, self.line = other.age, other.line

    @property
    def key(self) -> str:
        """A text that is equal for graphs that one object holds."""
        several = [each.container for each in self.holders if each.container]
        return (several or [each.text for each in self.holders] or self.others)[0]

    @property
    def is_scalar(self) -> bool:
        """Whether every result is one number."""
        return all(each.numel() == 1 for each in self.results)

    @grad_mode_kept
    def bytes(self) -> int:
        """Return the memory that nothing else holds."""
        nodes = (node for graph in self.graphs for node in (*graph.nodes, *graph.leaves))
        with torch.no_grad(), unseen():
            return freed_bytes(nodes, self.results)

    def result(self) -> HeldGraph:
        """Return the public object."""
        return make(
            HeldGraph,
            len(self.graphs),
            self.bytes(),
            [*collapsed(self.holders), *dict.fromkeys(self.others)],
            self.line,
            advice_for(self.holders, self.is_scalar),
        )


def held_graphs(
    names: Names, *, among: Collection[Number] = (), without: Collection[Number] = ()
) -> list[Group]:
    """Find the graphs that are alive, and group them by what holds them.

    ``among``: nodes whose graphs are returned; empty for all.
    """
    for places in (names.edges, names.tensors):
        places.clear()  # they would be one more holder of the nodes
    found: dict[int, Any] = {}
    owners: dict[int, int] = {}
    with unseen(), torch.no_grad():
        graphs = living_graphs(found, owners)
        if among:
            graphs = [graph for graph in graphs if _has_one(graph, among)]
        if without:
            graphs = [graph for graph in graphs if not _has_one(graph, without)]
        wanted = {key for graph in graphs for key in graph.held}
        wanted |= {owners[key] for key in wanted & owners.keys()}
        found = {key: found[key] for key in wanted}
        referrers = Referrers(found, names)
        for grad, owner in owners.items():
            if grad in wanted:
                referrers.above[grad].append((owner, ("grad", "")))
        referrers.search()
        groups: dict[str, Group] = {}
        for graph in graphs:
            group = _group(graph, referrers)
            if group.key in groups:
                groups[group.key].add(group)
            else:
                groups[group.key] = group
    return list(groups.values())


def _group(graph: LivingGraph, referrers: Referrers) -> Group:
    holders = [each for key in graph.held for each in holders_of(key, referrers)]
    others = [] if holders else [unnamed(graph.held[0], referrers)]
    held = [referrers.found[key] for key in graph.held]
    record = find_record(max(graph.nodes, key=_age)) if has_watched() else None
    line = str(record.source) if record is not None and record.source is not None else None
    results = [each for each in held if isinstance(each, torch.Tensor)]
    return Group([graph], results, holders, others, graph.age, line)


def _age(node: Node) -> int:
    return sequence_nr(node) or 0


def _has_one(graph: LivingGraph, numbers: Collection[Number]) -> bool:
    return any(number_of(node) in numbers for node in graph.nodes)


def number_of(node: Node) -> Number:
    """Tell a node from others without a reference to it."""
    return type(node).__name__, sequence_nr(node)
