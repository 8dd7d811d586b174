"""From tensors to a networkx graph with one node per autograd node."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import networkx as nx
import torch
from torch.autograd.graph import Node

from ..watching.records import any_alive
from .collector import collector_paused
from .names import Names, read_names
from .nodes import AccumulateGrad, Edge, input_names, leaf_tensor, node_class, op_name
from .outputs import Output, read_outputs
from .release import free_without_recursion

if TYPE_CHECKING:
    from ..annotating.annotate import Annotated


@dataclass(frozen=True)
class Capture:
    """A captured graph and the autograd nodes behind it.

    Attributes:
        graph: The public structure, plain values only.
        nodes: The autograd nodes; ``nodes[i]`` is node ``i`` of ``graph``.
        tensors: (node id, output_nr) -> an intermediate tensor of the user, while it lives.
        annotated: The graph with what is known beyond it, when that was asked for.
    """

    graph: nx.MultiDiGraph
    nodes: list[Node]
    tensors: dict[tuple[int, int], weakref.ref[torch.Tensor]]
    annotated: Annotated | None = None

    @property
    def drawn(self) -> nx.MultiDiGraph:
        """What there is to draw: the graph with constants and cuts, where they are known."""
        return self.graph if self.annotated is None else self.annotated.graph


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

        Nodes that are alike share the lists under ``outputs`` and ``no_grad_inputs``: read them,
        and assign new ones rather than changing them.

        Edge attributes: ``input_nr`` (which forward input of the source), ``argument`` (its name,
        "self", "mat2", or None where torch names none), ``output_nr`` (which output of the target).

        When the forward pass, or a part of it, ran under `gradwalk.watch`, nodes also have
        ``source`` ("file:line"), ``namespace`` (the module, "encoder/layers/0/linear1"; "" for the
        outermost), ``call`` (the forward function) and ``inplace``, and edges a ``kind``. After the
        autograd nodes come others: of kind "constant", an operand that needs no grad (with
        ``value``, its numbers as text if it is small); of kind "cut", one that lost its gradient on
        the way (``how``: "detach", "no_grad", ...); and of kind "outside", the tensor of another
        graph that a cut began at. Edges of kind "constant" lead to the first two, and edges of kind
        "cut" from a cut to its source; all others are of kind "gradient". The new ones may have an
        ``input_nr`` of None.

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
    given, called = read_outputs(outputs, "capture"), read_names(names, "capture")
    captured = capture_nodes(given, called)
    if not any_alive():
        return captured.graph
    from ..annotating.annotate import annotate  # noqa: PLC0415  it builds on what this file gives

    annotated = annotate(captured, given, called, infer=False).annotated
    return annotated.graph if annotated and annotated.annotations else captured.graph


def capture_nodes(outputs: list[Output], names: Names) -> Capture:
    """Like `capture`, for checked outputs, and with the autograd nodes at hand.

    Args:
        outputs: Where to start.
        names: What the user calls the tensors.

    Returns:
        The graph and its nodes.
    """
    with collector_paused():
        return _build(outputs, names)


def _build(outputs: list[Output], names: Names) -> Capture:
    graph = nx.MultiDiGraph()
    ids = {output.node: 0 for output in outputs}
    try:
        _walk(graph, ids)
    finally:
        free_without_recursion(ids)
    called = dict(names.edges)
    called.update({(o.node, o.output_nr): o.key for o in outputs if o.key is not None})
    _name_leaves(graph, ids, names.leaves)
    _name_outputs(graph, ids, called)
    graph.graph["roots"] = [(ids[output.node], output.output_nr) for output in outputs]
    graph.graph["torch_version"] = str(torch.__version__)
    # By id, and only for nodes of this graph: `names` may know the nodes of unrelated graphs.
    tensors = {(ids[node], nr): ref for (node, nr), ref in names.tensors.items() if node in ids}
    tensors |= {
        (ids[output.node], output.output_nr): weakref.ref(output.tensor)
        for output in outputs
        if output.tensor is not None and not output.tensor.is_leaf
    }
    return Capture(graph, list(ids), tensors)


def _walk(graph: nx.MultiDiGraph, ids: dict[Node, int]) -> None:  # noqa: C901
    """Fill ``graph`` with all that gradients can reach from some roots, breadth-first.

    Iterative, so that depth is limited by memory alone. This loop is what capturing costs, so it
    fills networkx' dictionaries directly (its own methods take longer than all the rest) and
    describes nodes that differ in nothing but their number once.

    Args:
        graph: An empty graph.
        ids: The roots; gets each node's id, in the order of the ids.
    """
    attributes, successors, predecessors = graph._node, graph._succ, graph._pred
    order: list[Any] = list(ids)
    for i, root in enumerate(order):
        ids[root] = i
        successors[i], predecessors[i] = {}, {}
    alike: dict[Any, tuple[dict[str, Any], Sequence[str | None]]] = {}
    for i, node in enumerate(order):  # grows while we walk
        cls: Any = type(node)
        key: Any = None
        try:
            if cls is AccumulateGrad:
                only = node.variable
            else:
                (only,) = node._input_metadata
            key = cls, tuple(only.shape), only.dtype, only.device
            found = alike.get(key)
        except (RuntimeError, ValueError):  # a nested tensor, several outputs, or none
            found = None
        if found is None:
            found = _describe(node, key), node_class(cls).arguments
            if key is not None and node_class(cls).op is not None:
                alike[key] = found
        described, arguments = found
        attributes[i] = data = described.copy()
        data["sequence_nr"] = node._sequence_nr()
        following = node.next_functions
        if len(arguments) != len(following):
            arguments = input_names(node, following)
        out = successors[i]
        for nr, (child, output_nr) in enumerate(following):
            if child is None:
                without_grad = {"input_nr": nr, "argument": arguments[nr]}
                data["no_grad_inputs"] = [*data["no_grad_inputs"], without_grad]
                continue
            target = ids.get(child)
            if target is None:
                ids[child] = target = len(order)
                order.append(child)
                successors[target], predecessors[target] = {}, {}
            edge = {"input_nr": nr, "argument": arguments[nr], "output_nr": output_nr}
            if target in out:
                out[target][nr] = edge
            else:
                out[target] = predecessors[target][i] = {nr: edge}


def _name_leaves(
    graph: nx.MultiDiGraph, ids: Mapping[Node, int], leaves: Mapping[int, str]
) -> None:
    for node, i in ids.items() if leaves else ():
        tensor = leaf_tensor(node)
        if tensor is not None and id(tensor) in leaves:
            _name_output(graph.nodes[i], 0, leaves[id(tensor)])


def _name_outputs(
    graph: nx.MultiDiGraph, ids: Mapping[Node, int], called: Mapping[Edge, str]
) -> None:
    for (node, output_nr), name in called.items():
        if node in ids:
            _name_output(graph.nodes[ids[node]], output_nr, name)


def _name_output(data: dict[str, Any], output_nr: int, name: str) -> None:
    # Nodes without names share their outputs, so a name makes a copy.
    data["outputs"] = outputs = [output.copy() for output in data["outputs"]]
    if output_nr < len(outputs):
        outputs[output_nr]["name"] = name
        data["name"] = ", ".join(output["name"] for output in outputs if output["name"])


def _describe(node: Any, only: Any) -> dict[str, Any]:
    """The attributes of a node, but for what numbers it.

    Args:
        node: The autograd node.
        only: Its class, and the shape, dtype and device of its one output; None for a node that
            has several outputs, or one without a shape.
    """
    is_leaf = type(node) is AccumulateGrad
    if only is not None:
        outputs = [_output(0, *only[1:])]
    else:
        described = [node.variable] if is_leaf else node._input_metadata
        outputs = [
            _output(nr, _shape(each), each.dtype, each.device) for nr, each in enumerate(described)
        ]
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
    }


def _shape(like: Any) -> tuple[Any, ...] | None:
    try:
        return tuple(like.shape)
    except RuntimeError:
        return None  # a nested tensor has no one shape


def _output(
    nr: int, shape: tuple[Any, ...] | None, dtype: torch.dtype, device: torch.device
) -> dict[str, Any]:
    return {
        "output_nr": nr,
        "name": None,
        "shape": shape if _is_plain(shape) else None,
        "dtype": _text(dtype),
        "device": _text(device),
    }


@functools.lru_cache(4096)
def _is_plain(shape: tuple[Any, ...] | None) -> bool:
    # A jagged tensor has a symbol among its sizes, so it has no shape of numbers.
    return shape is not None and all(type(size) is int for size in shape)


_text = functools.cache(str)  # slow on a dtype or a device, and there are few of them
