"""`held`: the autograd graphs that are alive, and who holds them."""

from __future__ import annotations

import gc
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Container
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, overload

import torch
from torch.autograd.graph import Node

from ...checks.memory import HeldGraph, HeldGraphs, freed_bytes
from ...graph.adjacency import collector_paused
from ...graph.names import Names, caller_names
from ...graph.outputs import read_outputs
from ...result import make
from ...torch_api.modes import grad_mode_kept, unseen
from ...torch_api.nodes import is_accumulate_grad, is_gone, sequence_nr
from ...torch_api.release import Below, free_without_recursion
from ...tracing.records import find_record, has_watched
from ...types import Outputs
from .holders import Holder, advice_for, collapsed, holders_of, unnamed
from .referrers import Referrers

_MOST_NODES = 16  # nodes of a graph whose holders are searched


@dataclass(eq=False)
class LivingGraph:
    """A connected autograd graph. Graphs that share leaves only are separate graphs."""

    nodes: list[Node] = field(default_factory=list)  # its nodes, without those of leaves
    leaves: set[Node] = field(default_factory=set)  # the nodes of its leaves
    # ``id`` of each Python object that keeps it alive: a tensor or a node.
    held: list[int] = field(default_factory=list)

    @property
    def age(self) -> int:
        """A number that is larger for a later graph."""
        return max(map(number_in_thread, self.nodes))


def living_graphs(found: dict[int, Any], owners: dict[int, int]) -> list[LivingGraph]:
    """Return all graphs that Python objects keep alive, the oldest first.

    ``found``: an empty dict. It gets the objects that keep graphs alive, by ``id``. ``owners``: an
    empty dict. It gets the ``id`` of each ``.grad`` with a graph -> that of its tensor, which is in
    ``found``, too.
    """
    nodes = _read_objects(found, owners)
    parts = _ConnectedParts()
    for key in [*found]:
        parts.walk(key, found[key])
    for node in _only_in_python(nodes, parts.part_of):
        found[id(node)] = node
        parts.walk(id(node), node)
    del nodes
    for owner in owners.values():
        parts.starts.pop(owner, None)
    graphs: dict[int, LivingGraph] = defaultdict(LivingGraph)
    for node, part in parts.part_of.items():
        graphs[parts.root(part)].nodes.append(node)
    for key, start in parts.starts.items():
        graphs[parts.root(start)].held.append(key)
    for graph in graphs.values():
        graph.held = _few(graph.held, found)
    for node, part in parts.leaves:
        graphs[parts.root(part)].leaves.add(node)
    free_without_recursion(parts.part_of)
    return sorted(graphs.values(), key=lambda graph: graph.age)


def _few(held: list[int], found: dict[int, Any]) -> list[int]:
    """Return all tensors, and the nodes that keep most alive: one list often holds all nodes."""
    tensors = [key for key in held if isinstance(found[key], torch.Tensor)]
    nodes = [key for key in held if not isinstance(found[key], torch.Tensor)]
    nodes.sort(key=lambda key: -number_in_thread(found[key]))
    return tensors + nodes[:_MOST_NODES]


def _only_in_python(nodes: list[Node], known: Container[Node]) -> list[Node]:
    """Return the nodes that nothing but Python code holds, which no count of references tells."""
    rest = [node for node in nodes if node not in known and not is_gone(node)]
    below = {child for node in rest for child, _ in node.next_functions}
    return [node for node in rest if node not in below]


def _read_objects(found: dict[int, Any], owners: dict[int, int]) -> list[Node]:
    """Find tensors with a graph, and nodes that Python code holds; return all nodes."""
    with torch.inference_mode(False), torch.enable_grad():
        probe = torch.ones((), device="cpu", requires_grad=True).mul(1)
    free = probe.grad_fn  # a node that only torch holds, to compare with
    del free
    objects = gc.get_objects()
    kinds = {kind: _kind(kind) for kind in set(map(type, objects))}
    kinds[Below] = _BELOW
    read = list(compress(objects, map(kinds.__getitem__, map(type, objects))))
    del objects
    tensors = [each for each in read if kinds[type(each)] == _TENSOR]
    nodes = [each for each in read if kinds[type(each)] == _NODE]
    below = Counter(
        id(node) for each in read if type(each) is Below for node in each.nodes if node is not None
    )
    uses = [sys.getrefcount(each) - below[id(each)] for each in nodes]
    alone = min(uses, default=0) if any(each is probe.grad_fn for each in nodes) else 0
    read = []
    for node, count in zip(nodes, uses, strict=True):
        if not is_accumulate_grad(node) and node is not probe.grad_fn:
            read.append(node)
            if count > alone:
                found[id(node)] = node
    for tensor in tensors:
        if tensor is probe:
            continue
        with suppress(Exception):  # a wrapper that is over, a class that raises
            if tensor.requires_grad and not tensor.is_leaf:
                found[id(tensor)] = tensor
            if tensor.is_leaf or tensor.retains_grad:
                grad = tensor.grad
                if grad is not None and grad.requires_grad and not grad.is_leaf:
                    found[id(grad)], found[id(tensor)] = grad, tensor
                    owners[id(grad)] = id(tensor)
    return read


_TENSOR, _NODE, _BELOW = 1, 2, 3


def _kind(cls: type) -> int:
    try:
        return _TENSOR if issubclass(cls, torch.Tensor) else _NODE if issubclass(cls, Node) else 0
    except Exception:  # a metaclass may raise
        return 0


class _ConnectedParts:
    """Connected parts of all graphs, joined while they are walked.

    Attributes:
        part_of: Each node -> a number of its part.
        leaves: The nodes of leaves, each with a number of its part.
        starts: ``id`` of an object -> a number of its part.
    """

    def __init__(self) -> None:
        self.part_of: dict[Node, int] = {}
        self.leaves: set[tuple[Any, int]] = set()
        self.starts: dict[int, int] = {}
        self._above: list[int] = []

    def root(self, part: int) -> int:
        """Return the number that all numbers of one part lead to."""
        while self._above[part] != part:
            self._above[part] = self._above[self._above[part]]
            part = self._above[part]
        return part

    def walk(self, key: int, start: Any) -> None:
        """Walk the graph of a tensor or a node."""
        node = start.grad_fn if isinstance(start, torch.Tensor) else start
        if node is None or is_accumulate_grad(node) or is_gone(node):
            return
        if node in self.part_of:
            self.starts[key] = self.part_of[node]
            return
        part = len(self._above)
        self._above.append(part)
        self.starts[key] = self.part_of[node] = part
        waiting: list[Any] = [node]
        while waiting:
            for child, _ in waiting.pop().next_functions:
                if child is None:
                    continue
                if is_accumulate_grad(child):
                    self.leaves.add((child, part))
                elif child not in self.part_of:
                    self.part_of[child] = part
                    waiting.append(child)
                elif (other := self.root(self.part_of[child])) != (own := self.root(part)):
                    self._above[own] = other


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
        or object holds as one. A notebook shows both with a bar for each.

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
            return HeldGraphs(sorted(results, key=lambda each: -each.bytes))
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
        holders = [*collapsed(self.holders), *dict.fromkeys(self.others)]
        advice = advice_for(self.holders, self.is_scalar)
        return make(HeldGraph, len(self.graphs), self.bytes(), holders, self.line, advice)


def held_graphs(
    names: Names, *, among: Collection[Number] = (), without: Collection[Number] = ()
) -> list[Group]:
    """Group the living graphs by what holds them; ``among``: nodes of the graphs, empty for all."""
    for places in (names.edges, names.tensors):
        places.clear()  # they would be one more holder of the nodes
    found: dict[int, Any] = {}
    owners: dict[int, int] = {}
    with unseen(), torch.no_grad():
        graphs = living_graphs(found, owners)
        graphs = [each for each in graphs if not among or _has_one(each, among)]
        graphs = [each for each in graphs if not _has_one(each, without)]
        wanted = {key for graph in graphs for key in graph.held}
        wanted |= {owners[key] for key in wanted & owners.keys()}
        found = {key: found[key] for key in wanted}
        referrers = Referrers(found, names)
        for grad, owner in owners.items():
            if grad in wanted:
                referrers.above[grad].append((owner, ("grad", "")))
        referrers.search()
        groups: dict[str, Group] = {}
        for group in (_group(graph, referrers) for graph in graphs):
            known = groups.setdefault(group.key, group)
            if known is not group:
                known.add(group)
    return list(groups.values())


def _group(graph: LivingGraph, referrers: Referrers) -> Group:
    holders = [each for key in graph.held for each in holders_of(key, referrers)]
    others = [] if holders else [unnamed(graph.held, referrers)]
    held = [referrers.found[key] for key in graph.held]
    latest = max(graph.nodes, key=number_in_thread)
    record = find_record(latest) if has_watched() else None
    source = None if record is None else record.facts.source
    line = None if source is None else str(source)
    results = [each for each in held if isinstance(each, torch.Tensor)]
    return Group([graph], results, holders, others, graph.age, line)


def _has_one(graph: LivingGraph, numbers: Collection[Number]) -> bool:
    return any(number_of(node) in numbers for node in graph.nodes)


def number_of(node: Node) -> Number:
    """Tell a node from others without a reference to it."""
    return type(node).__name__, sequence_nr(node)


def number_in_thread(node: Node) -> int:
    """Return a number that is larger for a later node of the same thread; 0 if unknown."""
    return sequence_nr(node) or 0
