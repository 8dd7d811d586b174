"""The autograd graphs that are alive in this process."""

from __future__ import annotations

import gc
import sys
from collections import Counter, defaultdict
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import torch
from torch.autograd.graph import Node

from ...torch_api.nodes import AccumulateGrad, is_gone, sequence_nr
from ...torch_api.release import Below, free_without_recursion

_MOST_NODES = 16
"""Nodes of a graph whose holders are searched."""


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
        return max(sequence_nr(node) or 0 for node in self.nodes)


def living_graphs(found: dict[int, Any], owners: dict[int, int]) -> list[LivingGraph]:
    """Return all graphs that Python objects keep alive, the oldest first.

    ``found``: an empty dict. It gets the objects that keep graphs alive, by ``id``. ``owners``: an
    empty dict. It gets the ``id`` of each ``.grad`` with a graph -> that of its tensor, which is in
    ``found``, too.
    """
    nodes = _read_objects(found, owners)
    parts = _Parts()
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
    nodes.sort(key=lambda key: -(sequence_nr(found[key]) or 0))
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
        if not isinstance(node, AccumulateGrad) and node is not probe.grad_fn:
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


class _Parts:
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
        if node is None or isinstance(node, AccumulateGrad) or is_gone(node):
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
                if isinstance(child, AccumulateGrad):
                    self.leaves.add((child, part))
                elif child not in self.part_of:
                    self.part_of[child] = part
                    waiting.append(child)
                elif (other := self.root(self.part_of[child])) != (own := self.root(part)):
                    self._above[own] = other
