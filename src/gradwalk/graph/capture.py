"""From tensors to a networkx graph with one node per autograd node."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import Node

from ..torch_api.func_transforms import transforms_around
from ..torch_api.nodes import AccumulateGrad, NextFunctions, outputs_metadata
from ..torch_api.release import free_without_recursion
from .adjacency import Neighbours
from .adjacency import attributes as attributes_of
from .adjacency import predecessors as predecessors_of
from .adjacency import successors as successors_of
from .attributes import Description, Place
from .garbage_collector import collector_paused
from .integers import read_int
from .names import Names
from .outputs import Output

if TYPE_CHECKING:
    import networkx as nx

MOST_NODES = 200_000
"""The most nodes that are drawn by default."""


@dataclass(frozen=True)
class Capture:
    """A captured graph and the autograd nodes behind it.

    Attributes:
        nodes: The autograd nodes; ``nodes[i]`` is node ``i`` of ``graph``.
        roots: (node id, output_nr) of the outputs, in the order given.
        tensors: (node id, output_nr) -> an intermediate tensor of the user, while it lives.
        described: Returns ``graph``, made by the first call.
        transforms: The ``torch.func`` transforms around it, outermost first.
        holders: Objects that keep nodes which ``nodes`` alone does not keep.
    """

    nodes: list[Node]
    roots: list[Place]
    tensors: dict[Place, weakref.ref[torch.Tensor]]
    described: Callable[[], nx.MultiDiGraph]
    transforms: tuple[str, ...]
    holders: tuple[Node, ...]

    @property
    def graph(self) -> nx.MultiDiGraph:
        """The public graph, with plain values only; made at the first access."""
        return self.described()

    @property
    def attributes(self) -> dict[int, dict[str, Any]]:
        """The attributes of every node of ``graph``."""
        return attributes_of(self.graph)

    @property
    def successors(self) -> Neighbours:
        """The outgoing edges of every node, in the direction of gradients."""
        return successors_of(self.graph)

    @property
    def predecessors(self) -> Neighbours:
        """The incoming edges of every node, from its consumers."""
        return predecessors_of(self.graph)

    @functools.cached_property
    def operations(self) -> list[int]:
        """Ids of the operations in the order in which torch created them, for each thread."""
        data = self.attributes
        made = [node for node, each in data.items() if each["kind"] == "op"]
        return sorted(made, key=lambda node: (data[node]["sequence_nr"], -node))

    @functools.cached_property
    def taken(self) -> dict[int, Any]:
        """Id of each leaf -> its shape, dtype and device at its first use; None for unknown.

        Another tensor may have replaced the leaf since.
        """
        nodes = enumerate(self.nodes)
        return {i: _taken(node) for i, node in nodes if type(node) is AccumulateGrad}

    def takers(self) -> dict[int, list[int]]:
        """Return the consumers of each node, in their order; it does not need ``graph``."""
        ids = {node: i for i, node in enumerate(self.nodes)}
        found: dict[int, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for child, _ in node.next_functions:
                if child is None:
                    continue
                takers = found.setdefault(ids[child], [])
                if not takers or takers[-1] != i:
                    takers.append(i)
        return found

    def leaves(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (node id, tensor) of every leaf. Do not keep them: the program may free them."""
        for i, node in enumerate(self.nodes):
            if type(node) is AccumulateGrad:
                yield i, node.variable  # type: ignore[attr-defined]


def capture_nodes(outputs: list[Output], names: Names, most: int | None = None) -> Capture:
    """Capture the autograd graph behind some outputs: one node per autograd ``Node``.

    An AccumulateGrad and its leaf tensor are one node. The walk is iterative and reads metadata
    only, so it changes nothing and works after backward has freed the saved tensors.

    Args:
        outputs: The start of the walk.
        names: The user's names for tensors.
        most: The most nodes to accept; None for any number.

    Returns:
        The graph and its nodes.

    Raises:
        ValueError: It has more nodes.
    """
    ids = {output.node: 0 for output in outputs}
    with collector_paused():
        try:
            return _build(outputs, ids, names, math.inf if most is None else most)
        finally:
            free_without_recursion(ids)


def read_most(max_nodes: Any) -> int | None:
    """Check the argument ``max_nodes``."""
    if max_nodes is None:
        return None
    instead = "Give the most nodes to draw, such as 1_000_000, or None for any number."
    count = read_int(max_nodes, "max_nodes was given ", instead)
    if count < 1:
        raise ValueError(f"max_nodes was given {count}. Give a number from 1, or None for any.")
    return count


def _build(outputs: list[Output], ids: dict[Node, int], names: Names, most: float) -> Capture:
    """Capture the graph; ``ids`` has the roots, and gets every node that was touched."""
    following: list[NextFunctions] = []
    _walk(ids, following, most)
    if len(ids) > most:
        raise ValueError(
            f"This graph has more than {most:,} nodes, and a picture of a million takes minutes "
            "and gigabytes. Show a part of it (start from the output of one layer, or unroll fewer "
            "steps), or pass a larger max_nodes to GraphWidget to draw it all the same. capture(), "
            "record() and explain_grad() take graphs of any size."
        )
    called = dict(names.edges)
    called.update({(o.node, o.output_nr): o.key for o in outputs if o.key is not None})
    nodes = list(ids)
    roots = [(ids[output.node], output.output_nr) for output in outputs]
    # By id, and only for nodes of this graph: `names` may know the nodes of unrelated graphs.
    tensors = {(ids[node], nr): ref for (node, nr), ref in names.tensors.items() if node in ids}
    tensors |= {
        (ids[output.node], output.output_nr): weakref.ref(output.tensor)
        for output in outputs
        if output.tensor is not None and not output.tensor.is_leaf
    }
    described = Description(
        ids,
        following,
        called={(ids[node], nr): name for (node, nr), name in called.items() if node in ids},
        leaf_names=_leaf_names(nodes, names),
        roots=roots,
    )
    transforms = transforms_around(outputs[0].tensor if outputs else None)
    holders = tuple(output.holder for output in outputs if output.holder is not None)
    return Capture(nodes, roots, tensors, described, transforms, holders)


def _leaf_names(nodes: list[Node], names: Names) -> dict[int, str]:
    if not names.leaves:
        return {}
    leaves = [(i, node.variable) for i, node in enumerate(nodes) if type(node) is AccumulateGrad]  # type: ignore[attr-defined]
    return {i: names.leaves[id(leaf)] for i, leaf in leaves if id(leaf) in names.leaves}


def _walk(ids: dict[Node, int], following: list[NextFunctions], most: float) -> None:
    """Find all nodes that gradients can reach from some roots, breadth-first.

    Iterative, so that only memory limits the depth. It stops after ``most`` nodes.

    Args:
        ids: The roots; gets each node's id, in the order of the ids.
        following: Gets the next functions of each node.
        most: A number of nodes.
    """
    order = list(ids)
    ids.update({root: i for i, root in enumerate(order)})
    for node in order:  # grows while we walk
        if len(order) > most:
            return
        found = node.next_functions
        following.append(found)
        for child, _ in found:
            if child is not None and child not in ids:
                ids[child] = len(order)
                order.append(child)


def is_replaced(taken: Any, leaf: torch.Tensor) -> bool:
    """Whether another tensor has replaced a leaf, as ``half()`` of a module does.

    Args:
        taken: Its entry in `Capture.taken`.
        leaf: The current leaf.
    """
    now = _type_of(leaf)
    return taken is not None and now is not None and taken != now


def _taken(node: Any) -> Any:
    try:
        (noted,) = outputs_metadata(node)
    except Exception:  # a nested tensor
        return None
    return _type_of(noted)


def _type_of(like: Any) -> Any:
    """Return the shape, dtype and device of a leaf or of torch's metadata; None for unknown."""
    try:
        return tuple(like.shape), like.dtype, like.device
    except Exception:  # a nested tensor, symbolic sizes, a class that raises
        return None
