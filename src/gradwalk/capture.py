"""From tensors to a networkx graph with one node per autograd node."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import networkx as nx
import torch
from torch.autograd.graph import Node

from . import release
from .names import Names, read_names
from .nodes import input_names, leaf_tensor, op_name, walk
from .outputs import Output, read_outputs


@dataclass(frozen=True)
class Capture:
    """A captured graph and the autograd nodes behind it.

    Attributes:
        graph: The public structure, plain values only.
        nodes: The autograd nodes; ``nodes[i]`` is node ``i`` of ``graph``.
        tensors: (node id, output_nr) -> an intermediate tensor of the user, while it lives.
    """

    graph: nx.MultiDiGraph
    nodes: list[Node]
    tensors: dict[tuple[int, int], weakref.ref[torch.Tensor]]


def capture(
    *outputs: Any, names: Mapping[str, Any] | torch.nn.Module | None = None
) -> nx.MultiDiGraph:
    """The autograd graph behind some tensors, as a networkx graph.

    One graph node per autograd ``Node``; an AccumulateGrad and the leaf tensor it accumulates into
    are one node of kind ``"leaf"``. The walk is iterative and reads metadata only: no gradient,
    random state or tensor is touched, and it works after the buffers were freed.

    Args:
        *outputs: Tensors that require grad, ``torch.autograd.graph.GradientEdge``s or autograd
            ``Node``s, any number, also in lists, tuples and dicts.
        names: What to call tensors: a mapping from names to tensors or ``nn.Module``s (whose
            parameters get dotted names), or one module.

    Returns:
        A ``networkx.MultiDiGraph``. Nodes are numbered breadth-first from the outputs. Edges point
        the way gradients flow, from a node to its next functions, keyed by input number.

        Node attributes: ``kind`` ("op" or "leaf"), ``op`` (the class name, "MulBackward0"),
        ``name``, ``shape`` (tuple), ``dtype`` and ``device`` (as torch prints them) of its first
        output, ``requires_grad``, ``is_leaf``, ``sequence_nr`` (torch's own), ``outputs`` (one dict
        per output: ``output_nr``, ``name``, ``shape``, ``dtype``, ``device``) and
        ``no_grad_inputs`` (one dict per operand that needs no gradient: ``input_nr``,
        ``argument``).

        Edge attributes: ``input_nr`` (which forward input of the source), ``argument`` (its name,
        "self", "mat2", or None where torch names none), ``output_nr`` (which output of the target).

        Graph attributes: ``roots``, a list of (node, output_nr) in the order given, and
        ``torch_version``.

    Raises:
        TypeError: An output is of a kind that carries no autograd graph, or ``names`` is not a
            mapping or module.
        ValueError: No output was given, or one that does not require grad.

    Example::

        >>> w = torch.tensor([4.0], requires_grad=True)
        >>> graph = capture(w * 2, names={"w": w})
        >>> [(data["op"], data["name"]) for _, data in graph.nodes(data=True)]
        [('MulBackward0', None), ('AccumulateGrad', 'w')]
        >>> list(graph.edges(data="argument"))
        [(0, 1, 'self')]
    """
    return capture_nodes(read_outputs(outputs, "capture"), read_names(names, "capture")).graph


def capture_nodes(outputs: list[Output], names: Names) -> Capture:
    """Like `capture`, for checked outputs, and with the autograd nodes at hand.

    Args:
        outputs: Where to start.
        names: What the user calls the tensors.

    Returns:
        The graph and its nodes.
    """
    with _collector_paused():
        return _build(outputs, names)


@contextmanager
def _collector_paused() -> Iterator[None]:
    # A graph is many small long-lived objects: collecting while they are made doubles the time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _build(outputs: list[Output], names: Names) -> Capture:
    walked = walk(output.node for output in outputs)
    release.hold(walked, [output.tensor for output in outputs if output.tensor is not None])
    ids = {node: i for i, node in enumerate(walked)}
    keys = {(o.node, o.output_nr): o.key for o in outputs if o.key is not None}
    edge_names = names.edges | keys

    graph = nx.MultiDiGraph(
        roots=[(ids[output.node], output.output_nr) for output in outputs],
        torch_version=str(torch.__version__),
    )
    edges = []
    for i, (node, following) in enumerate(walked.items()):
        leaf = leaf_tensor(node)
        attributes = _op(node, edge_names) if leaf is None else _leaf(node, leaf, names, edge_names)
        attributes["no_grad_inputs"] = without_grad = []
        arguments = input_names(node, following)
        for nr, (child, output_nr) in enumerate(following):
            argument = arguments[nr]
            if child is None:
                without_grad.append({"input_nr": nr, "argument": argument})
            else:
                place = {"input_nr": nr, "argument": argument, "output_nr": output_nr}
                edges.append((i, ids[child], nr, place))
        graph.add_node(i, **attributes)
    graph.add_edges_from(edges)
    # By id, and only for nodes of this graph: `names` may know the nodes of unrelated graphs.
    tensors = {(ids[node], nr): ref for (node, nr), ref in names.tensors.items() if node in ids}
    tensors |= {
        (ids[output.node], output.output_nr): weakref.ref(output.tensor)
        for output in outputs
        if output.tensor is not None and not output.tensor.is_leaf
    }
    return Capture(graph, list(walked), tensors)


def _op(node: Node, names: Mapping[tuple[Node, int], str]) -> dict[str, Any]:
    outputs = [
        _output(nr, names.get((node, nr)), metadata)
        for nr, metadata in enumerate(node._input_metadata)
    ]
    named = [output["name"] for output in outputs if output["name"] is not None]
    first = outputs[0] if outputs else _output(0, None, None)
    return {
        "kind": "op",
        "op": op_name(node),
        "name": ", ".join(named) or None,
        "shape": first["shape"],
        "dtype": first["dtype"],
        "device": first["device"],
        "requires_grad": True,
        "is_leaf": False,
        "sequence_nr": node._sequence_nr(),
        "outputs": outputs,
    }


def _leaf(
    node: Node, tensor: torch.Tensor, names: Names, edge_names: Mapping[tuple[Node, int], str]
) -> dict[str, Any]:
    name = edge_names.get((node, 0)) or names.leaves.get(id(tensor))
    output = _output(0, name, tensor)
    return {
        "kind": "leaf",
        "op": "AccumulateGrad",
        "name": name,
        "shape": output["shape"],
        "dtype": output["dtype"],
        "device": output["device"],
        "requires_grad": tensor.requires_grad,
        "is_leaf": tensor.is_leaf,
        "sequence_nr": node._sequence_nr(),
        "outputs": [output],
    }


def _output(nr: int, name: str | None, like: Any) -> dict[str, Any]:
    """One output, described by a tensor or by the metadata torch keeps about one."""
    return {
        "output_nr": nr,
        "name": name,
        "shape": None if like is None else _shape(like),
        "dtype": None if like is None else _text(like.dtype),
        "device": None if like is None else _text(like.device),
    }


def _shape(like: Any) -> tuple[int, ...] | None:
    try:
        shape = tuple(like.shape)
    except RuntimeError:
        return None  # a nested tensor has no one shape
    return shape if all(type(size) is int for size in shape) else None  # nor has a jagged one


# str() of a dtype or device is slow, and a graph has few different ones.
_text = functools.cache(str)
