"""From tensors to a networkx graph with one node per autograd node."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import Node

from .adjacency import Neighbours
from .adjacency import attributes as attributes_of
from .adjacency import predecessors as predecessors_of
from .adjacency import successors as successors_of
from .collector import collector_paused
from .modes import unseen
from .names import Names
from .nodes import AccumulateGrad, NextFunctions, as_taken, input_names, node_class, op_name
from .outputs import Output
from .release import free_without_recursion
from .transforms import transforms_around
from .whole_number import whole_number

if TYPE_CHECKING:
    import networkx as nx

Place = tuple[int, int]
"""The id of a node, and which of its outputs."""

MOST_NODES = 200_000
"""Nodes of a graph that is drawn without asking."""

_MOST_NAMES = 100  # outputs that a node is named after


@dataclass(frozen=True)
class Capture:
    """A captured graph and the autograd nodes behind it.

    Attributes:
        nodes: The autograd nodes; ``nodes[i]`` is node ``i`` of ``graph``.
        roots: (node id, output_nr) of the outputs, in the order given.
        tensors: (node id, output_nr) -> an intermediate tensor of the user, while it lives.
        described: Makes ``graph``, or gives the one that it has made.
        transforms: The transforms of ``torch.func`` within which it was made, the outermost first.
        holders: What keeps nodes that are not kept by being in ``nodes``.
    """

    nodes: list[Node]
    roots: list[Place]
    tensors: dict[Place, weakref.ref[torch.Tensor]]
    described: Callable[[], nx.MultiDiGraph]
    transforms: tuple[str, ...]
    holders: tuple[Node, ...]

    @property
    def graph(self) -> nx.MultiDiGraph:
        """The public structure, plain values only; made when it is first asked for."""
        return self.described()

    @property
    def attributes(self) -> dict[int, dict[str, Any]]:
        """The attributes of every node of ``graph``."""
        return attributes_of(self.graph)

    @property
    def successors(self) -> Neighbours:
        """The edges of ``graph`` out of every node: the way gradients flow, to what it takes."""
        return successors_of(self.graph)

    @property
    def predecessors(self) -> Neighbours:
        """The edges of ``graph`` into every node: from the nodes that take what it gives."""
        return predecessors_of(self.graph)

    @functools.cached_property
    def operations(self) -> list[int]:
        """Ids of the operations in the order in which they were made, as torch numbered them.

        Of graphs made by several threads it is the order of each thread.
        """
        data = self.attributes
        made = [node for node, each in data.items() if each["kind"] == "op"]
        return sorted(made, key=lambda node: (data[node]["sequence_nr"], -node))

    @functools.cached_property
    def taken(self) -> dict[int, Any]:
        """Id of each leaf -> its class, shape, dtype and device as it was taken; None for unknown.

        torch noted them when the leaf was first used, and another tensor may stand in its place.
        """
        nodes = enumerate(self.nodes)
        return {i: _taken(node) for i, node in nodes if type(node) is AccumulateGrad}

    def takers(self) -> dict[int, list[int]]:
        """Node -> the nodes that take what it gives, in their order; told without ``graph``."""
        ids = {node: i for i, node in enumerate(self.nodes)}
        found: dict[int, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for child in dict.fromkeys(child for child, _ in node.next_functions):
                if child is not None:
                    found.setdefault(ids[child], []).append(i)
        return found

    def leaves(self) -> Iterator[tuple[int, torch.Tensor]]:
        """(node id, tensor) of every leaf; whoever keeps these keeps what the program may free."""
        for i, node in enumerate(self.nodes):
            if type(node) is AccumulateGrad:
                yield i, node.variable  # type: ignore[attr-defined]


def capture_nodes(outputs: list[Output], names: Names, most: int | None = None) -> Capture:
    """The autograd graph behind some outputs: one node per autograd ``Node``.

    An AccumulateGrad and the leaf tensor it accumulates into are one node. The walk is iterative
    and reads metadata only: no gradient, random state or tensor is touched, and it works after the
    buffers were freed.

    Args:
        outputs: Where to start.
        names: What the user calls the tensors.
        most: How many nodes the graph may have; None for any number.

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
    """The most nodes to draw, checked."""
    if max_nodes is None:
        return None
    instead = "Give the most nodes to draw, such as 1_000_000, or None for any number."
    count = whole_number(max_nodes, "max_nodes was given ", instead)
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
    described = _Described(
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
    """Find all that gradients can reach from some roots, breadth-first.

    Iterative, so that depth is limited by memory alone. It ends when it knows of more than ``most``
    nodes.

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


class _Described:
    """The graph of a walk, made once somebody asks for it: `record` may never need it.

    What may change until then, the names of tensors, is noted before. Shapes are those that torch
    noted in the forward pass.
    """

    def __init__(
        self,
        ids: dict[Node, int],
        following: list[NextFunctions],
        *,
        called: dict[Place, str],
        leaf_names: dict[int, str],
        roots: list[Place],
    ) -> None:
        """Note what to describe.

        Args:
            ids: The id of each node, in the order of the ids.
            following: The next functions of each.
            called: The names of outputs of nodes.
            leaf_names: The names of leaves.
            roots: The outputs.
        """
        self._noted = ids, following
        self._names = called, leaf_names
        self._roots = roots
        self._lock = threading.Lock()
        self._graph: nx.MultiDiGraph | None = None

    def __call__(self) -> nx.MultiDiGraph:
        if self._graph is not None:
            return self._graph
        with self._lock:
            if self._graph is None:
                with collector_paused(), unseen():
                    self._graph = self._made()
                self._noted = {}, []
            return self._graph

    def _made(self) -> nx.MultiDiGraph:
        import networkx as nx  # noqa: PLC0415  slow to import

        graph = nx.MultiDiGraph()
        _describe_all(graph, *self._noted)
        called, leaf_names = self._names
        for i, name in leaf_names.items():
            _name(graph.nodes[i], {0: name})
        _name_outputs(graph, called)
        graph.graph["roots"] = self._roots.copy()
        graph.graph["torch_version"] = str(torch.__version__)
        return graph


def _key(cls: type, only: Any) -> Any:
    """What tells whether two nodes differ in nothing but their number; None where nothing does."""
    try:
        return cls, tuple(only.shape), only.dtype, only.device
    except Exception:  # a nested tensor, sizes that are symbols, a class that refuses to tell
        return None


def is_replaced(taken: Any, leaf: torch.Tensor) -> bool:
    """Whether another tensor was put in the place of a leaf since, as ``half()`` of a module does.

    Args:
        taken: What `Capture.taken` says of it.
        leaf: The leaf as it is now.
    """
    now = _key(AccumulateGrad, leaf)
    return taken is not None and now is not None and taken != now


def _taken(node: Any) -> Any:
    try:
        (noted,) = node._input_metadata
    except Exception:  # a nested tensor
        return None
    return _key(AccumulateGrad, noted)


def _describe_all(  # noqa: C901
    graph: nx.MultiDiGraph, ids: dict[Node, int], following: list[NextFunctions]
) -> None:
    """Fill ``graph`` with nodes and edges.

    This loop is what capturing costs, so it fills networkx' dictionaries directly (its own methods
    take longer than all the rest) and describes nodes that differ in nothing but their number once.
    """
    attributes, successors, predecessors = (
        attributes_of(graph),
        successors_of(graph),
        predecessors_of(graph),
    )
    for i in ids.values():
        successors[i], predecessors[i] = {}, {}
    alike: dict[Any, tuple[dict[str, Any], Sequence[str | None]]] = {}
    node: Any
    for (node, i), children in zip(ids.items(), following, strict=True):
        cls: Any = type(node)
        key: Any = None
        with contextlib.suppress(Exception):  # it has several outputs, none, or a nested one
            (only,) = node._input_metadata
            key = cls, tuple(only.shape), only.dtype, only.device
        try:
            found = alike.get(key)
        except Exception:  # sizes that are symbols are never alike
            key = found = None
        if found is None:
            found = _describe(node, key), node_class(cls).arguments
            if key is not None and node_class(cls).op is not None:
                alike[key] = found
        described, arguments = found
        attributes[i] = data = described.copy()
        data["sequence_nr"] = node._sequence_nr()
        if len(arguments) != len(children):
            arguments = input_names(node, children)
        out = successors[i]
        without_grad: list[dict[str, Any]] = []
        for nr, (child, output_nr) in enumerate(children):
            if child is None:
                without_grad.append({"input_nr": nr, "argument": arguments[nr]})
                continue
            target = ids[child]
            edge = {"input_nr": nr, "argument": arguments[nr], "output_nr": output_nr}
            if target in out:
                out[target][nr] = edge
            else:
                out[target] = predecessors[target][i] = {nr: edge}
        if without_grad:
            data["no_grad_inputs"] = without_grad


def _name_outputs(graph: nx.MultiDiGraph, called: Mapping[Place, str]) -> None:
    by_node: dict[int, dict[int, str]] = {}
    for (node, output_nr), name in called.items():
        by_node.setdefault(node, {})[output_nr] = name
    for i, names in by_node.items():
        _name(graph.nodes[i], names)


def _name(data: dict[str, Any], names: Mapping[int, str]) -> None:
    """Name a node after its outputs, given by their numbers."""
    # Nodes without names share their outputs, so a name makes a copy.
    data["outputs"] = outputs = [
        {**output, "name": names.get(output["output_nr"], output["name"])}
        for output in data["outputs"]
    ]
    named = [output["name"] for output in outputs if output["name"]]
    if named:
        more = len(named) - _MOST_NAMES
        rest = f" and {more} more" if more > 0 else ""
        data["name"] = ", ".join(named[:_MOST_NAMES]) + rest


def _describe(node: Any, only: Any) -> dict[str, Any]:
    """The attributes of a node, but for what numbers it.

    Args:
        node: The autograd node.
        only: Its class, and the shape, dtype and device of its one output; None for a node that
            has several outputs, or one without a shape.
    """
    is_leaf = type(node) is AccumulateGrad
    outputs = described_outputs(node) if only is None else [_output(0, *only[1:])]
    first = outputs[0] if outputs else {"shape": None, "dtype": None, "device": None}
    return {
        "kind": "leaf" if is_leaf else "op",
        "op": op_name(node),
        "name": None,
        "shape": first["shape"],
        "dtype": first["dtype"],
        "device": first["device"],
        "requires_grad": True,
        "is_leaf": is_leaf,
        "sequence_nr": None,
        "outputs": outputs,
        "no_grad_inputs": [],
        "checkpoint": None,
    }


def described_outputs(node: Any) -> list[dict[str, Any]]:
    """What ``graph`` says of the outputs of a node, without their names."""
    is_leaf = type(node) is AccumulateGrad
    described = [as_taken(node, node.variable)] if is_leaf else node._input_metadata
    with torch._C.DisableTorchFunctionSubclass():  # a subclass may refuse to tell
        return [
            _output(nr, _shape(each), each.dtype, each.device) for nr, each in enumerate(described)
        ]


def _shape(like: Any) -> tuple[Any, ...] | None:
    try:
        return tuple(like.shape)
    except Exception:  # a nested tensor has no one shape, a class of the user's may refuse
        return None


def _output(
    nr: int, shape: tuple[Any, ...] | None, dtype: torch.dtype, device: torch.device
) -> dict[str, Any]:
    return {
        "output_nr": nr,
        "name": None,
        "shape": shape if _is_plain(shape) else None,
        "dtype": as_text(dtype),
        "device": as_text(device),
    }


def _is_plain(shape: tuple[Any, ...] | None) -> bool:
    # A jagged tensor has a symbol among its sizes, so it has no shape of numbers.
    return shape is not None and all(type(size) is int for size in shape)


as_text = functools.cache(str)
"""How torch prints a dtype or a device: slow, and there are few of them."""
