"""The captured graph with what `watch` saw: source lines, modules, constants and cuts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import torch

from ..graph.adjacency import attributes, copied
from ..graph.capture import Capture
from ..graph.names import Names
from ..graph.nodes import op_name
from ..graph.words import short_value
from .annotations import Annotation
from .cut_words import ALIAS, how_made
from .cuts import Constant, Cut
from .double_backward import Derivative, derivatives_in
from .inferred_operands import operands_inferred
from .module_path import TensorRef
from .operand_constants import Operand, operands_seen, watched
from .records import find_source
from .regions import Region, find_regions, innermost
from .roots import Roots

if TYPE_CHECKING:
    import networkx as nx

MOST_INFERRED = 2_000
"""In graphs of more nodes nothing is inferred unasked: it means reading all that was saved."""


@dataclass(frozen=True)
class Extra:
    """What a node stands for that is no autograd node.

    Attributes:
        kind: "constant", an operand that needs no grad; "cut", one that lost its gradient on the
            way; "outside", the tensor of another graph that a cut began at.
        constant: The operand; None for an outside tensor.
        source: The outside tensor, while it lives; None for an operand.
        inferred: Whether it was inferred rather than watched.
        sources: Of a cut, the node where each of the constant's cuts began.
    """

    kind: str
    constant: Constant | None
    source: TensorRef | None
    inferred: bool
    sources: tuple[int, ...] = ()

    @property
    def tensor(self) -> torch.Tensor | None:
        """The tensor it stands for, while that lives."""
        reference = self.constant.tensor if self.constant is not None else self.source
        return reference() if reference is not None else None


@dataclass(frozen=True)
class Annotated(Capture):
    """A captured graph and what is known beyond its autograd nodes.

    Attributes:
        drawn: The autograd nodes, as in ``graph``, with more attributes, then the extra ones.
        annotations: What `watch` saw, by the id of the autograd node.
        extras: What each extra node stands for; the first has the id `first_extra`.
        module_roots: What the outermost modules are called.
        regions: The checkpointed regions; the nodes of ``drawn`` carry their numbers.
        derivatives: What in it was computed as the derivative of something.
        calls: How many calls of opened compiled code stand after the autograd nodes.
    """

    drawn: nx.MultiDiGraph
    annotations: dict[int, Annotation]
    extras: list[Extra]
    module_roots: Roots
    regions: list[Region]
    derivatives: list[Derivative]
    calls: int = 0

    @property
    def first_extra(self) -> int:
        """The id of the first extra node."""
        return len(self.nodes) + self.calls

    def extra(self, node: int) -> Extra:
        """What a node stands for that is neither an autograd node nor inside of one."""
        return self.extras[node - self.first_extra]

    def watched(self) -> nx.MultiDiGraph:
        """The graph without what was inferred, which stands at its end; a copy."""
        if not self.annotations and not self.calls:
            return self.graph.copy()
        seen = [node for node, is_inferred in self.drawn.nodes(data="inferred") if not is_inferred]
        return self.drawn.subgraph(seen).copy()


def annotate(captured: Capture, names: Names, *, infer: bool) -> Annotated:
    """Add to a captured graph what `watch` saw of it, and if asked what can be inferred.

    Args:
        captured: The graph; it is not changed.
        names: What the user calls the tensors.
        infer: Whether to look for constants among the saved tensors of nodes that nobody watched.

    Returns:
        The same with ``drawn``: every node's ``source``, ``namespace``, ``call`` and ``inplace``,
        every edge's ``kind``, and nodes of the kinds "constant", "cut" and "outside" at the end.
        Where nothing was watched and nothing is to be inferred, ``drawn`` is ``graph`` itself.
    """
    seen = watched(captured)
    roots = Roots(seen.values(), names)
    annotations = {node: roots.rooted(annotation) for node, annotation in seen.items()}
    if not annotations and not infer:
        return unannotated(captured, names)
    operands = list(operands_seen(annotations))
    if infer:
        operands += operands_inferred(captured, names, annotations)
    graph = copied(captured.graph, lambda node: _seen(annotations.get(node)), {"kind": "gradient"})
    for node, leaf in captured.leaves():
        if not isinstance(leaf, torch.nn.Parameter):
            # It was made outside of the modules that take it.
            attributes(graph)[node]["namespace"] = ""
    build = _Builder(captured, names, graph)
    for operand in operands:
        build.add(operand)
    found = _annotated(captured, graph, annotations, build.extras, roots)
    return replace(found, derivatives=derivatives_in(captured, names))


def unannotated(captured: Capture, names: Names | None = None) -> Annotated:
    """A captured graph of which nothing more is known; ``names`` are the user's."""
    called = names or Names()
    found = _annotated(captured, captured.graph, {}, [], Roots([], called))
    return replace(found, derivatives=derivatives_in(captured, called))


def _annotated(
    captured: Capture,
    drawn: nx.MultiDiGraph,
    annotations: dict[int, Annotation],
    extras: list[Extra],
    roots: Roots,
) -> Annotated:
    known = {field.name: getattr(captured, field.name) for field in fields(Capture)}
    regions = find_regions(captured, annotations)
    for node, number in innermost(regions).items():
        captured.graph.nodes[node]["checkpoint"] = drawn.nodes[node]["checkpoint"] = number
    return Annotated(
        **known,
        drawn=drawn,
        annotations=annotations,
        extras=extras,
        module_roots=roots,
        regions=regions,
        derivatives=[],
    )


_UNSEEN = {"source": None, "namespace": None, "call": None, "inplace": False}


def _seen(annotation: Annotation | None) -> Mapping[str, Any]:
    if annotation is None:
        return _UNSEEN
    module = annotation.module
    return {
        "source": None if annotation.source is None else str(annotation.source),
        "namespace": None if module is None else module.replace(".", "/"),
        "call": annotation.forward,
        "inplace": annotation.inplace,
    }


class _Builder:
    """Appends constants, cuts and outside tensors to a graph, each tensor once."""

    def __init__(self, captured: Capture, names: Names, graph: nx.MultiDiGraph) -> None:
        self.extras: list[Extra] = []
        self.first = len(graph)
        self._captured = captured
        self._names = names
        self._graph = graph
        self._ids = {node: i for i, node in enumerate(captured.nodes)}
        self._known: dict[Any, int] = {}

    def add(self, operand: Operand) -> None:
        """Draw one operand at its node."""
        constant = operand.constant
        node = self._operand(operand)
        self._graph.add_edge(
            operand.node,
            node,
            input_nr=constant.input_nr,
            argument=constant.argument,
            output_nr=0,
            kind="constant",
        )

    def _operand(self, operand: Operand) -> int:
        constant = operand.constant
        tensor = constant.tensor() if constant.tensor is not None else None
        if tensor is not None:
            key: Any = id(tensor), operand.inferred
        elif constant.origin is not None:  # each tensor has an origin of its own
            key = id(constant.origin)
        else:
            key = object()
        if key in self._known:
            return self._known[key]
        name = self._names.name_of(tensor) if tensor is not None else None
        cuts = constant.cuts
        where = constant.origin.where if constant.origin is not None else None
        data = _blank(
            kind="cut" if cuts else "constant",
            op="constant",
            name=name,
            shape=constant.shape,
            dtype=constant.dtype,
            device=None if tensor is None else str(tensor.device),
        )
        data["source"] = None if where is None else str(where)
        data["value"] = short_value(constant.values)
        data["inferred"] = operand.inferred
        sources = [self._source(cut, operand) for cut in cuts]
        if cuts:
            data["how"] = cuts[0].how
            data["source"] = data["source"] if cuts[0].where is None else str(cuts[0].where)
            data["op"] = how_made(
                [cut.how for cut in cuts],
                [self._called(source, cut) for source, cut in zip(sources, cuts, strict=True)],
                direct=constant.origin is not None and constant.origin.direct,
            )
        extra = Extra(data["kind"], constant, None, operand.inferred, tuple(sources))
        made = self._append(data, extra)
        self._known[key] = made
        for source, cut in zip(sources, cuts, strict=True):
            self._graph.add_edge(
                made,
                source,
                input_nr=None,
                argument=None,
                output_nr=cut.output_nr if source < self.first else 0,
                kind="cut",
                how=cut.how,
                source=None if cut.where is None else str(cut.where),
            )
        return made

    def _source(self, cut: Cut, operand: Operand) -> int:
        """The node of the tensor that a cut began at, in this graph or outside of it."""
        place = find_source(cut, self._captured.nodes)
        if place is not None:
            node = self._ids.get(place[0])
            if node is not None and self._came_before(node, operand.node):
                return node
        tensor = cut.source()
        key = ("outside", id(tensor if tensor is not None else cut))
        if key in self._known:
            return self._known[key]
        grad_fn = tensor.grad_fn if tensor is not None else None
        is_leaf = tensor is not None and tensor.is_leaf
        data = _blank(
            kind="outside",
            op="AccumulateGrad" if is_leaf else (op_name(grad_fn) if grad_fn else "gone"),
            name=self._names.name_of(tensor) if tensor is not None else None,
            shape=cut.shape,
            dtype=None if tensor is None else str(tensor.dtype),
            device=None if tensor is None else str(tensor.device),
        )
        data.update(requires_grad=True, is_leaf=is_leaf, inferred=cut.how == ALIAS)
        made = self._append(data, Extra("outside", None, cut.source, cut.how == ALIAS))
        self._known[key] = made
        return made

    def _came_before(self, source: int, node: int) -> bool:
        # A tensor that was changed in place later on has another node now, perhaps this very one.
        nodes = self._graph.nodes
        return bool(
            nodes[source]["kind"] == "leaf"
            or nodes[source]["sequence_nr"] < nodes[node]["sequence_nr"]
        )

    def _called(self, source: int, cut: Cut) -> str | None:
        data = self._graph.nodes[source]
        outputs = data["outputs"]
        nr = cut.output_nr if source < self.first else 0
        name: str | None = outputs[nr]["name"] if nr < len(outputs) else None
        return name

    def _append(self, data: dict[str, Any], extra: Extra) -> int:
        node = len(self._graph)
        if data["kind"] != "constant":
            data["namespace"] = ""  # no module is known to have made it, least of all its user
        self._graph.add_node(node, **data)
        self.extras.append(extra)
        return node


def _blank(
    *,
    kind: str,
    op: str,
    name: str | None,
    shape: tuple[int, ...],
    dtype: str | None,
    device: str | None,
) -> dict[str, Any]:
    output = {"output_nr": 0, "name": name, "shape": shape, "dtype": dtype, "device": device}
    return {
        "kind": kind,
        "op": op,
        "name": name,
        "shape": shape,
        "dtype": dtype,
        "device": device,
        "requires_grad": False,
        "is_leaf": True,
        "sequence_nr": None,
        "outputs": [output],
        "no_grad_inputs": [],
        "checkpoint": None,
        **_seen(None),
        "inferred": False,
    }
