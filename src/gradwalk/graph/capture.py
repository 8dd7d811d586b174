"""From tensors to a networkx graph with one node per autograd node."""

from __future__ import annotations

import functools
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch.autograd.graph import Node

from ..lazily import nx
from ..torch_api.capability import is_there
from ..torch_api.modes import transforms_around, unseen, without_function_subclasses
from ..torch_api.nodes import (
    NextFunctions,
    at_first_use,
    input_names,
    is_accumulate_grad,
    is_leaf_class,
    node_class,
    op_name,
    outputs_metadata,
    sequence_nr,
)
from ..torch_api.release import free_without_recursion
from .adjacency import Neighbours, collector_paused
from .adjacency import attributes as attributes_of
from .adjacency import predecessors as predecessors_of
from .adjacency import successors as successors_of
from .names import Names
from .outputs import Output

OutputKey = tuple[int, int]  # the id of a node, and the number of one of its outputs
EdgeKey = tuple[int, int]  # the id of a consumer, and the number of one of its arguments

_MOST_NAMES = 100  # outputs that a node is named after


def _made_once(
    ids: dict[Node, int],
    following: list[NextFunctions],
    names: dict[OutputKey, str],
    roots: list[OutputKey],
) -> Callable[[], nx.MultiDiGraph]:
    """Return a function that makes the graph of a walk, once, with the names of now."""
    lock = threading.Lock()
    made: list[nx.MultiDiGraph] = []
    walked = [(ids, following)]

    def graph() -> nx.MultiDiGraph:
        if not made:
            with lock, collector_paused(), unseen():
                if not made:
                    made.append(_described(*walked[0], names, roots))
                    walked.clear()
        return made[0]

    return graph


def _described(
    ids: dict[Node, int],
    following: list[NextFunctions],
    names: dict[OutputKey, str],
    roots: list[OutputKey],
) -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    _describe_all(graph, ids, following)
    if not is_there(outputs_metadata):
        _add_used_outputs(graph, roots)
    if not is_there(sequence_nr):
        _number_by_place(graph)
    by_node: dict[int, dict[int, str]] = {}
    for (node, output_nr), name in names.items():
        by_node.setdefault(node, {})[output_nr] = name
    for node, of_outputs in by_node.items():
        _name(graph.nodes[node], of_outputs)
    graph.graph["roots"] = roots.copy()
    graph.graph["torch_version"] = str(torch.__version__)
    return graph


def _add_used_outputs(graph: nx.MultiDiGraph, roots: list[OutputKey]) -> None:
    """List the outputs that consumers and roots use: torch does not say how many there are."""
    used = [(to, output_nr) for _, to, output_nr in graph.edges(data="output_nr")]
    for node, output_nr in [*used, *roots]:
        outputs = graph.nodes[node]["outputs"]
        outputs += [_output(nr, None, None, None) for nr in range(len(outputs), output_nr + 1)]


def _number_by_place(graph: nx.MultiDiGraph) -> None:
    """Number nodes so that each has a higher number than those whose results it takes."""
    data = attributes_of(graph)
    order = reversed(list(nx.topological_sort(graph)))
    for number, node in enumerate(order):
        data[node]["sequence_nr"] = number


def _describe_all(  # noqa: C901
    graph: nx.MultiDiGraph, ids: dict[Node, int], following: list[NextFunctions]
) -> None:
    """Fill ``graph`` with nodes and edges.

    This loop takes most of the time of a capture. So it fills networkx' dictionaries directly, and
    describes nodes that differ only in their number once.
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
        try:
            (only,) = outputs_metadata(node)
            key = cls, tuple(only.shape), only.dtype, only.device
            found = alike.get(key)
        except Exception:  # several outputs, none, a nested one; sizes that are symbols
            key = found = None
        if found is None:
            found = _describe(node, key), node_class(cls).arguments
            if key is not None and node_class(cls).op is not None:
                alike[key] = found
        described, arguments = found
        attributes[i] = data = described.copy()
        data["sequence_nr"] = sequence_nr(node)
        if len(arguments) != len(children):
            arguments = input_names(node, children)
        out = successors[i]
        without_grad: list[dict[str, Any]] = []
        for nr, (child, output_nr) in enumerate(children):
            if child is None:
                without_grad.append({"arg_nr": nr, "argument": arguments[nr]})
                continue
            target = ids[child]
            edge = {"arg_nr": nr, "argument": arguments[nr], "output_nr": output_nr}
            if target in out:
                out[target][nr] = edge
            else:
                out[target] = predecessors[target][i] = {nr: edge}
        if without_grad:
            data["no_grad_inputs"] = without_grad


def _name(data: dict[str, Any], names: Mapping[int, str]) -> None:
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
    """Return the attributes of a node; ``only`` has class and type of its one output."""
    is_leaf = is_accumulate_grad(node)
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
    """Describe the outputs of a node, without their names."""
    is_leaf = is_accumulate_grad(node)
    described = [at_first_use(node, node.variable)] if is_leaf else outputs_metadata(node)
    with without_function_subclasses():  # a subclass may raise
        return [
            _output(nr, _shape(each), each.dtype, each.device) for nr, each in enumerate(described)
        ]


def _shape(like: Any) -> tuple[Any, ...] | None:
    try:
        return tuple(like.shape)
    except Exception:  # a nested tensor has no single shape, a user's class may raise
        return None


def _output(
    nr: int,
    shape: tuple[Any, ...] | None,
    dtype: torch.dtype | None,
    device: torch.device | None,
) -> dict[str, Any]:
    return {
        "output_nr": nr,
        "name": None,
        "shape": shape if is_plain_shape(shape) else None,
        "dtype": None if dtype is None else as_text(dtype),
        "device": None if device is None else as_text(device),
    }


def is_plain_shape(shape: tuple[Any, ...] | None) -> bool:
    """Whether a shape consists of numbers, without symbols."""
    # A jagged tensor has a symbol among its sizes, so it has no shape of numbers.
    return shape is not None and all(type(size) is int for size in shape)


as_text = functools.cache(str)
"""The text of a dtype or a device; cached, because torch takes long for it."""


@dataclass(frozen=True)
class Capture:
    """A captured graph and the autograd nodes behind it."""

    nodes: list[Node]  # the autograd nodes; ``nodes[i]`` is node ``i`` of ``graph``
    roots: list[OutputKey]  # (node id, output_nr) of the outputs, in the order given
    # (node id, output_nr) -> an intermediate tensor of the user, while it lives.
    tensors: dict[OutputKey, weakref.ref[torch.Tensor]]
    described: Callable[[], nx.MultiDiGraph]  # returns ``graph``, made by the first call
    # Ids of the nodes of each class: what a node can be is a question about its class.
    by_class: dict[type, list[int]]
    transforms: tuple[str, ...]  # the ``torch.func`` transforms around it, outermost first
    holders: tuple[Node, ...]  # objects that keep nodes which ``nodes`` alone does not keep

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

    def of_classes(self, fits: Callable[[type], bool]) -> list[int]:
        """Return the ids of the nodes whose class fits, in ascending order."""
        found = [ids for cls, ids in self.by_class.items() if fits(cls)]
        return found[0] if len(found) == 1 else sorted(chain.from_iterable(found))

    @functools.cached_property
    def leaf_ids(self) -> list[int]:
        """Ids of the leaves, in ascending order."""
        return self.of_classes(is_leaf_class)

    @functools.cached_property
    def leaf_types(self) -> dict[int, Any]:
        """Id of each leaf -> its shape, dtype and device at its first use; None for unknown."""
        return {i: _type_at_first_use(self.nodes[i]) for i in self.leaf_ids}

    def consumers(self) -> dict[int, list[int]]:
        """Return the consumers of each node, in their order; it does not need ``graph``."""
        ids = {node: i for i, node in enumerate(self.nodes)}
        found: dict[int, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for child, _ in node.next_functions:
                if child is None:
                    continue
                consumers = found.setdefault(ids[child], [])
                if not consumers or consumers[-1] != i:
                    consumers.append(i)
        return found

    def leaves(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (node id, tensor) of every leaf. Do not keep them: the program may free them."""
        for i in self.leaf_ids:
            yield i, self.nodes[i].variable  # type: ignore[attr-defined]


def capture_nodes(outputs: list[Output], names: Names, most: int | None = None) -> Capture:
    """Capture the autograd graph behind some outputs: one node per autograd ``Node``.

    An AccumulateGrad and its leaf tensor are one node. The walk is iterative and reads metadata
    only, so it changes nothing and works after backward has freed the saved tensors.
    """
    ids = {output.node: 0 for output in outputs}
    with collector_paused():
        try:
            return _build(outputs, ids, names, math.inf if most is None else most)
        finally:
            free_without_recursion(ids)


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
    at = {(ids[node], nr): name for (node, nr), name in called.items() if node in ids}
    by_class = _by_class(nodes)
    described = _made_once(ids, following, {**_leaf_names(nodes, by_class, names), **at}, roots)
    transforms = transforms_around(outputs[0].tensor if outputs else None)
    holders = tuple(output.holder for output in outputs if output.holder is not None)
    return Capture(nodes, roots, tensors, described, by_class, transforms, holders)


def _by_class(nodes: list[Node]) -> dict[type, list[int]]:
    found: dict[type, list[int]] = {}
    for i, cls in enumerate(map(type, nodes)):
        if cls in found:
            found[cls].append(i)
        else:
            found[cls] = [i]
    return found


def _leaf_names(
    nodes: list[Node], by_class: dict[type, list[int]], names: Names
) -> dict[OutputKey, str]:
    if not names.leaves:
        return {}
    leaves: list[tuple[int, torch.Tensor]] = [
        (i, nodes[i].variable)  # type: ignore[attr-defined]
        for cls in filter(is_leaf_class, by_class)
        for i in by_class[cls]
    ]
    return {(i, 0): names.leaves[id(leaf)] for i, leaf in leaves if id(leaf) in names.leaves}


def _walk(ids: dict[Node, int], following: list[NextFunctions], most: float) -> None:
    """Find all nodes that gradients can reach from the roots, breadth-first, at most ``most``."""
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


def is_replaced(type_at_first_use: Any, leaf: torch.Tensor) -> bool:
    """Return whether another tensor has replaced a leaf, as ``half()`` of a module does."""
    now = _type_of(leaf)
    return None not in (type_at_first_use, now) and type_at_first_use != now


def _type_at_first_use(node: Any) -> Any:
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
