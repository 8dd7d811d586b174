"""Make the networkx graph: the attributes of every node and edge."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import Node

from ..torch_api.modes import unseen, without_function_subclasses
from ..torch_api.nodes import (
    AccumulateGrad,
    NextFunctions,
    as_taken,
    input_names,
    node_class,
    op_name,
    outputs_metadata,
    sequence_nr,
)
from .adjacency import attributes as attributes_of
from .adjacency import predecessors as predecessors_of
from .adjacency import successors as successors_of
from .garbage_collector import collector_paused

if TYPE_CHECKING:
    import networkx as nx

Place = tuple[int, int]
"""The id of a node, and the number of one of its outputs."""

_MOST_NAMES = 100  # outputs that a node is named after


class Description:
    """The graph of a walk, made at the first access: `record` may never need it.

    Names of tensors may change until then, so they are read before. Shapes are those that torch
    recorded in the forward pass.
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
        """Store what to describe.

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
        """The graph, made by the first call."""
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
    """Return the attributes of a node, except its numbers.

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
    """Describe the outputs of a node, without their names."""
    is_leaf = type(node) is AccumulateGrad
    described = [as_taken(node, node.variable)] if is_leaf else outputs_metadata(node)
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
    nr: int, shape: tuple[Any, ...] | None, dtype: torch.dtype, device: torch.device
) -> dict[str, Any]:
    return {
        "output_nr": nr,
        "name": None,
        "shape": shape if is_plain_shape(shape) else None,
        "dtype": as_text(dtype),
        "device": as_text(device),
    }


def is_plain_shape(shape: tuple[Any, ...] | None) -> bool:
    """Whether a shape consists of numbers, without symbols."""
    # A jagged tensor has a symbol among its sizes, so it has no shape of numbers.
    return shape is not None and all(type(size) is int for size in shape)


as_text = functools.cache(str)
"""The text of a dtype or a device; cached, because torch takes long for it."""
