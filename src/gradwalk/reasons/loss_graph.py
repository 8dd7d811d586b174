"""The graph behind a loss, for asking how a tensor stands to it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import Node

from ..forward.annotate import Annotated, annotate
from ..forward.annotations import cuts_of
from ..forward.records import Cut
from ..graph.adjacency import predecessors
from ..graph.capture import capture_nodes
from ..graph.names import Names
from ..graph.nodes import AccumulateGrad, gradient_edge, keeps_tensors, leaf_tensor
from ..graph.outputs import read_outputs, values_in
from ..graph.saved import is_freed


@dataclass(frozen=True)
class LossGraph:
    """The graph behind a loss.

    Attributes:
        captured: The graph with its annotations; None when no part of the loss requires grad.
        without_grad: The parts of the loss that do not require grad.
        name: What to call the loss in a sentence.
    """

    captured: Annotated | None
    without_grad: tuple[torch.Tensor, ...]
    name: str

    @property
    def start(self) -> str:
        """Its name for the start of a sentence."""
        return "The loss" if self.name == "the loss" else self.name

    @property
    def is_watched(self) -> bool:
        """Whether `watch` saw the forward pass, or a part of it."""
        return self.captured is not None and bool(self.captured.annotations)

    def node_of(self, tensor: torch.Tensor) -> int | None:
        """The id of the node that made a tensor, or accumulates into it; None for no such node."""
        if self.captured is None:
            return None
        if tensor.is_leaf:  # also one that needs no grad now, but did when the graph was recorded
            return self._leaves.get(id(tensor))
        return self._ids.get(gradient_edge(tensor)[0])

    def cuts_from(self, tensor: torch.Tensor) -> list[Cut]:
        """Where values that were computed from a tensor went on without gradient."""
        return [cut for cut in self._cuts if _began_at(cut, tensor)]

    def backward_ran(self, node: int) -> bool:
        """Whether the operations that pass gradients to a node have freed what they saved.

        Those that save nothing give no evidence; what passes gradients to them may.
        """
        assert self.captured is not None
        nodes, before = self.captured.nodes, predecessors(self.captured.graph)
        waiting = list(before[node])
        seen = set(waiting)
        for source in waiting:  # grows while we walk
            consumer: Node = nodes[source]
            if is_freed(consumer):
                return True
            if not keeps_tensors(type(consumer)):
                waiting += [each for each in before[source] if each not in seen]
                seen.update(before[source])
        return False

    @functools.cached_property
    def _ids(self) -> dict[Node, int]:
        return {node: i for i, node in enumerate(self.captured.nodes)} if self.captured else {}

    @functools.cached_property
    def _leaves(self) -> dict[int, int]:
        nodes = self.captured.nodes if self.captured is not None else []
        leaves = [(i, node) for i, node in enumerate(nodes) if type(node) is AccumulateGrad]
        return {id(leaf_tensor(node)): i for i, node in leaves}

    @property
    def _cuts(self) -> Iterator[Cut]:
        cuts = [
            cut
            for extra in (self.captured.extras if self.captured is not None else ())
            if extra.constant is not None
            for cut in extra.constant.cuts
        ]
        cuts += [cut for tensor in self.without_grad for cut in cuts_of(tensor)]
        yield from dict.fromkeys(cuts)


def read_loss(loss: Any, names: Names) -> LossGraph:
    """The graph behind what backward starts from.

    Args:
        loss: A tensor, ``GradientEdge`` or autograd ``Node``, any number, also in lists, tuples
            and dicts.
        names: What the user calls the tensors.

    Raises:
        TypeError: Something is of a kind that has no autograd graph.
    """
    given = values_in(loss)
    without = tuple(
        value for value in given if isinstance(value, torch.Tensor) and not value.requires_grad
    )
    rest = [value for value in given if not any(value is each for each in without)]
    known = [names.name_of(value) for value in given if isinstance(value, torch.Tensor)]
    name = known[0] if len(given) == 1 and known and known[0] else "the loss"
    if without and not rest:
        return LossGraph(None, without, name)
    outputs = read_outputs((rest,), "explain_grad")
    captured = annotate(capture_nodes(outputs, names), names, infer=True)
    return LossGraph(captured, without, name)


def graph_of(captured: Annotated) -> LossGraph:
    """The graph behind a loss that has been captured already."""
    roots = captured.graph.graph["roots"]
    names = {
        captured.graph.nodes[node]["outputs"][nr]["name"]
        for node, nr in roots
        if nr < len(captured.graph.nodes[node]["outputs"])
    }
    only = names.pop() if len(names) == 1 else None
    return LossGraph(captured, (), only or "the loss")


def _began_at(cut: Cut, tensor: torch.Tensor) -> bool:
    source = cut.source()
    if source is tensor or any(leaf() is tensor for leaf in cut.leaves):
        return True
    if source is None or source.is_leaf or not tensor.requires_grad:
        return False
    # As a capture, which sees to it that what was walked can be freed.
    behind = capture_nodes(read_outputs((source,), "explain_grad"), Names()).nodes
    if tensor.is_leaf:
        return any(leaf_tensor(node) is tensor for node in behind)
    return gradient_edge(tensor)[0] in set(behind)
