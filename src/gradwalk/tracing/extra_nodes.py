"""The drawn nodes that autograd does not have: constants, cuts and tensors outside the graph."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node

from ..graph.adjacency import collector_paused, copied
from ..graph.capture import Capture, as_text, is_plain_shape
from ..graph.labels import short_value
from ..graph.names import Names
from ..graph.symbols import symbol_of
from ..lazily import nx
from ..torch_api.nodes import Edge, leaf_tensor, op_name, sequence_nr
from ..torch_api.reading import version_of
from ..torch_api.signatures import tensor_arguments
from .annotations import Annotation
from .constant_operands import ConstantOperand
from .cuts import ALIAS, BOOLEANS, INTEGERS, Constant, Cut, how_made
from .module_path import TensorRef
from .records import find_source
from .source_line import SourceLine


class Extra(NamedTuple):
    """A node that is not an autograd node."""

    # "constant", an operand that needs no grad; "cut", an operand that lost its gradient;
    # "outside", the tensor of another graph that a cut started from.
    kind: str
    constant: Constant | None  # the operand; None for an outside tensor
    source: TensorRef | None  # the outside tensor, while it lives; None for an operand
    inferred: bool  # whether it was inferred rather than watched
    sources: tuple[int, ...] = ()  # for a cut, the node where each of the constant's cuts started
    value: Any = None  # of an outside tensor, the numbers that `watch` copied; see `Made`

    @property
    def tensor(self) -> torch.Tensor | None:
        """The tensor, while it lives."""
        reference = self.constant.tensor if self.constant is not None else self.source
        return reference() if reference is not None else None


def with_extras(
    captured: Capture,
    names: Names,
    annotations: Mapping[int, Annotation],
    operands: Collection[ConstantOperand],
) -> tuple[Callable[[], nx.MultiDiGraph], list[Extra]]:
    """Return a function that copies a graph with its extra nodes, once, and these nodes."""
    build = _Builder(captured, names)
    for operand in operands:
        build.add(operand)
    # Do not keep the names alive.
    first, added, edges, extras = build.first, build.added, build.edges, build.extras
    # A leaf that is not a Parameter was made outside the modules that take it.
    outside = {i for i, leaf in captured.leaves() if not isinstance(leaf, torch.nn.Parameter)}

    # A loop repeats its lines. Caching ``str`` itself would take 20 times as long.
    shown = functools.cache(SourceLine.__str__)

    def seen(node: int) -> Mapping[str, Any]:
        return _OUTSIDE if node in outside else _seen(annotations.get(node), shown)

    @functools.cache
    def drawn() -> nx.MultiDiGraph:
        with collector_paused():
            graph = copied(captured.graph, seen, {"kind": "gradient"})
            for node, (data, extra) in enumerate(zip(added, extras, strict=True), first):
                graph.add_node(node, **data)
                if extra.constant is not None:
                    graph.nodes[node]["value"] = short_value(extra.constant.values)
            for source, target, edge in edges:
                graph.add_edge(source, target, **edge)
            return graph

    return drawn, extras


_UNSEEN = {"source": None, "namespace": None, "call": None, "inplace": False}
_OUTSIDE = {**_UNSEEN, "namespace": ""}


def _seen(annotation: Annotation | None, shown: Callable[[SourceLine], str]) -> Mapping[str, Any]:
    if annotation is None:
        return _UNSEEN
    module = annotation.module
    return {
        "source": None if annotation.source is None else shown(annotation.source),
        "namespace": None if module is None else module.replace(".", "/"),
        "call": annotation.forward,
        "inplace": annotation.inplace,
    }


class _Builder:
    """Appends constants, cuts and outside tensors to a graph, each tensor once."""

    def __init__(self, captured: Capture, names: Names) -> None:
        self.first = len(captured.nodes)  # the id of the first extra node
        self.added: list[dict[str, Any]] = []
        # (source, target, attributes) of the edges to them.
        self.edges: list[tuple[int, int, dict[str, Any]]] = []
        self.extras: list[Extra] = []
        self._names = names
        self._captured = captured
        self._starts: dict[int, Edge | None] = {}  # by the id of a cut: searched once
        self._known: dict[Any, int] = {}

    @functools.cached_property
    def _numbered(self) -> dict[int, list[Node]]:
        # A loop may cut at every step: number the nodes once, and only if a tensor is gone.
        found: dict[int, list[Node]] = {}
        for node in self._ids:
            found.setdefault(sequence_nr(node), []).append(node)
        return found

    @functools.cached_property
    def _ids(self) -> dict[Node, int]:
        return {node: i for i, node in enumerate(self._captured.nodes)}

    @functools.cached_property
    def _registered(self) -> set[int]:
        """The ids of the modules' own tensors; a model's may have names without dots."""
        modules = (reference() for reference in self._names.modules.values())
        return {
            id(tensor)
            for module in modules
            if module is not None
            for tensor in chain(module.parameters(recurse=False), module.buffers(recurse=False))
        }

    def add(self, operand: ConstantOperand) -> None:
        """Add one operand and the edge to its node."""
        constant = operand.constant
        node = self._operand(operand)
        edge = {
            "arg_nr": constant.arg_nr,
            "argument": constant.argument,
            "output_nr": 0,
            "kind": "constant",
        }
        self.edges.append((operand.node, node, edge))
        data = self.added[node - self.first]
        role = _role(constant.argument, op_name(self._captured.nodes[operand.node]))
        data["role"] = role if data.get("role", role) == role else None

    def _operand(self, operand: ConstantOperand) -> int:
        constant = operand.constant
        tensor = constant.tensor() if constant.tensor is not None else None
        if tensor is not None:
            key: Any = id(tensor), operand.inferred
        elif constant.origin is not None and not operand.inferred:  # unique per constant
            key = id(constant.origin)
        else:
            key = object()
        if key in self._known:
            return self._known[key]
        name = self._names.name_of(tensor) if tensor is not None else None
        origin, cuts = constant.origin, constant.cuts
        where = None if origin is None else origin.where
        data = _blank(
            kind="cut" if cuts else "constant",
            op="constant",
            name=name,
            shape=constant.shape,
            dtype=constant.dtype,
            device=None if tensor is None else as_text(tensor.device),
        )
        data["source"] = None if where is None else str(where)
        data["inferred"] = operand.inferred
        if name is not None and name.isidentifier() and id(tensor) not in self._registered:
            data["namespace"] = ""  # a variable of the program is an input of its modules
        sources = tuple(self._source(cut, operand) for cut in cuts) if cuts else ()
        if cuts:
            data["how"] = cuts[0].how
            data["source"] = data["source"] if cuts[0].where is None else str(cuts[0].where)
            data["op"] = how_made(
                [_result(cut.how, constant.dtype) for cut in cuts],
                [self._source_name(source, cut) for source, cut in zip(sources, cuts, strict=True)],
                direct=origin is not None and origin.direct,
            )
        extra = Extra(data["kind"], constant, None, operand.inferred, sources)
        made = self._known[key] = self._append(data, extra)
        for source, cut in zip(sources, cuts, strict=True) if cuts else ():
            edge = {
                "arg_nr": None,
                "argument": None,
                "output_nr": cut.output_nr if source < self.first else 0,
                "kind": "cut",
                "how": cut.how,
                "source": None if cut.where is None else str(cut.where),
            }
            self.edges.append((made, source, edge))
        return made

    def _source(self, cut: Cut, operand: ConstantOperand) -> int:
        """Return the node of the tensor that a cut started from, in this graph or outside."""
        if id(cut) not in self._starts:
            self._starts[id(cut)] = find_source(cut, lambda: self._numbered)
        place = self._starts[id(cut)]
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
        dtype = None if cut.made is None else cut.made.dtype
        data = _blank(
            kind="outside",
            op="AccumulateGrad" if is_leaf else (op_name(grad_fn) if grad_fn else "gone"),
            name=self._names.name_of(tensor) if tensor is not None else None,
            shape=cut.shape,
            dtype=dtype if tensor is None else str(tensor.dtype),
            device=None if tensor is None else str(tensor.device),
        )
        data.update(requires_grad=True, is_leaf=is_leaf, inferred=cut.how == ALIAS)
        data["made_by"] = self._call(cut, grad_fn)
        value = _value_before(cut, operand.constant)
        extra = Extra("outside", None, cut.source, cut.how == ALIAS, value=value)
        made = self._append(data, extra)
        self._known[key] = made
        return made

    def _call(self, cut: Cut, grad_fn: Node | None) -> str | None:
        """Return what made the source of a cut: "×", or "max(x)" if it took one named leaf."""
        made = cut.made
        if made is None:
            return None if grad_fn is None else symbol_of(op_name(grad_fn))
        sign = symbol_of(made.function)
        leaf = made.leaf() if made.leaf is not None else None
        name = self._names.name_of(leaf) if leaf is not None else None
        return f"{sign}({name})" if name is not None and sign[-1].isalpha() else sign

    def _came_before(self, source: int, node: int) -> bool:
        # A tensor changed in place later has another node now, perhaps this very one.
        made, taken_by = self._captured.nodes[source], self._captured.nodes[node]
        return leaf_tensor(made) is not None or sequence_nr(made) < sequence_nr(taken_by)

    def _source_name(self, source: int, cut: Cut) -> str | None:
        is_own = source < self.first
        data = self._captured.attributes[source] if is_own else self.added[source - self.first]
        outputs = data["outputs"]
        nr = cut.output_nr if is_own else 0
        name: str | None = outputs[nr]["name"] if nr < len(outputs) else None
        return name

    def _append(self, data: dict[str, Any], extra: Extra) -> int:
        if data["kind"] != "constant":
            data["namespace"] = ""  # the module that made it is unknown
        self.added.append(data)
        self.extras.append(extra)
        return self.first + len(self.added) - 1


_MEANS_NOTHING = re.compile(r"self|other|tensors?\d?|(mat|vec|batch)\d?")


_WORD = re.compile(r"[a-z]{2}")  # operands of signs have no roles


def _role(argument: str | None, op: str) -> str | None:
    """Return the argument that an operation takes a constant as; None if the word says little."""
    name = (argument or "").partition("[")[0].strip("_")
    # The Python function may have other parameters, or several signatures, as torch.lstm.
    is_said = name in _arguments(op) and not _MEANS_NOTHING.fullmatch(name)
    return name if is_said and _WORD.search(symbol_of(op)) else None


@functools.cache
def _arguments(op: str) -> frozenset[str]:
    return frozenset(name.strip("_") for name in tensor_arguments(op))


def _result(how: str, dtype: str) -> str:
    """Return how an operand lost its gradient, with its kind of numbers if that is the reason."""
    name = dtype.removeprefix("torch.")
    if not how.startswith("integer"):
        return how
    return BOOLEANS if name == "bool" else INTEGERS if name.startswith(("int", "uint")) else how


def _value_before(cut: Cut, constant: Constant) -> Any:
    """Return the numbers of a cut's source; None if they are unknown or changed before the cut."""
    value, source = None if cut.made is None else cut.made.value, cut.source()
    if constant.origin is not None and constant.origin.direct and constant.values is not None:
        may_differ = repr(constant.values) != repr(value)
    else:
        may_differ = source is not None and version_of(source) > 0
    return None if may_differ else value


def _blank(
    *,
    kind: str,
    op: str,
    name: str | None,
    shape: tuple[int, ...] | None,
    dtype: str | None,
    device: str | None,
) -> dict[str, Any]:
    shape = shape if is_plain_shape(shape) else None
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
        **_UNSEEN,
        "inferred": False,
    }
