"""The captured graph with what `watch` saw: source lines, modules, constants and cuts.

Constants, cuts and tensors outside the graph become extra nodes. An operand that needs no grad is
known from `watch`, or inferred from what a node saved.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd.graph import Node

from ..graph.adjacency import collector_paused, copied
from ..graph.capture import Capture, as_text, is_plain_shape
from ..graph.labels import short_value
from ..graph.names import Names
from ..graph.names import below as joined
from ..torch_api.checkpoints import parts_in
from ..torch_api.nodes import Edge, node_class, op_name, saved_tensors, sequence_nr
from ..torch_api.reading import has_data, shape_of, storage_of, storage_uses, why_unreadable
from ..torch_api.saved_tensors import Saved, read_saved
from ..torch_api.signatures import arguments_without_grad, tensor_arguments
from .annotations import Annotation, annotations_in
from .checkpoint_regions import Region, find_regions, innermost
from .cuts import ALIAS, Constant, Cut, Origin, alias_of, how_made
from .double_backward import Derivative, derivatives_in
from .module_path import ModuleCall, TensorRef
from .records import MOST_COPIED, find_source, records_in
from .source_line import SourceLine

if TYPE_CHECKING:
    import networkx as nx


class Operand(NamedTuple):
    """An operand of one node that needs no grad."""

    node: int
    constant: Constant
    inferred: bool  # whether it was inferred from a saved tensor rather than watched


def watched_operands(annotations: dict[int, Annotation]) -> Iterator[Operand]:
    """Yield the watched operands that need no grad."""
    for node, annotation in annotations.items():
        for constant in annotation.constants:
            yield Operand(node, constant, inferred=False)


def inferred_operands(
    captured: Capture, names: Names, annotations: dict[int, Annotation]
) -> Iterator[Operand]:
    """Yield operands of unwatched nodes that need no grad, as far as the nodes saved them.

    They are the saved tensors that are an argument of the forward call. One that shares its memory
    with a leaf, of the graph or among the names, has a cut of the kind `ALIAS`.
    """
    leaves = functools.cache(lambda: _leaves_by_storage(captured, names))
    for i, node in enumerate(captured.nodes):
        if not _keeps_operands(type(node)):
            continue
        seen = annotations[i].constants if i in annotations else ()
        needing = tuple([child is not None for child, _ in node.next_functions])
        free, numbers = arguments_without_grad(op_name(node), needing)
        for saved in read_saved(node, free) if free else ():
            if not isinstance(saved.value, torch.Tensor) or saved.value.requires_grad:
                continue
            nr = numbers.get(saved.name)
            if not any(_is_same(saved, nr, other) for other in seen):
                yield Operand(i, _inferred(saved, nr, leaves), inferred=True)


@functools.cache
def _keeps_operands(cls: type) -> bool:
    """Return whether nodes of a class may save operands of their call."""
    return not tensor_arguments(node_class(cls).op).isdisjoint(saved_tensors(cls))


def _is_same(saved: Saved, arg_nr: int | None, seen: Constant) -> bool:
    """Return whether a saved tensor is the operand that `watch` saw."""
    if seen.tensor is not None and seen.tensor() is saved.value:
        return True
    if arg_nr is not None and seen.arg_nr is not None:
        return arg_nr == seen.arg_nr
    return saved.name == seen.argument


def _inferred(
    saved: Saved, arg_nr: int | None, leaves: Callable[[], dict[int, torch.Tensor]]
) -> Constant:
    tensor: torch.Tensor = saved.value
    storage, leaf = storage_of(tensor), None
    # Most have their own memory, so no leaf is searched. Ask first: torch also counts the Python
    # object of a storage, which reading creates.
    if storage is not None and storage_uses(storage) > 1:
        leaf = leaves().get(storage)
    values = None
    try:
        # A tensor changed in place since is not what the operation took.
        small = has_data(tensor) and tensor.numel() <= MOST_COPIED and tensor.is_cpu
        if small and not saved.changed and why_unreadable(tensor) is None:
            values = tensor.tolist()
    except Exception:  # some layouts and subclasses cannot be listed
        values = None
    return Constant(
        position=saved.name,
        shape=shape_of(tensor),
        dtype=as_text(tensor.dtype),
        values=values,
        tensor=TensorRef(tensor),
        origin=_UNKNOWN_ORIGIN
        if leaf is None
        else Origin(None, (alias_of(leaf),), direct=leaf.numel() == tensor.numel()),
        argument=saved.name,
        arg_nr=arg_nr,
    )


_UNKNOWN_ORIGIN = Origin(None, ())


def _leaves_by_storage(captured: Capture, names: Names) -> dict[int, torch.Tensor]:
    """Return leaves that need grad by their storage; leaves of the graph come first."""
    tensors = {id(leaf): leaf for _, leaf in captured.leaves()}
    for key, (_, reference) in names.known.items():
        other = None if key in tensors else reference()
        if other is not None:
            tensors[key] = other
    found: dict[int, torch.Tensor] = {}
    for tensor in tensors.values():
        if tensor.requires_grad:
            storage = storage_of(tensor)
            if storage is not None:
                found.setdefault(storage, tensor)
    return found


class Extra(NamedTuple):
    """A node that is not an autograd node."""

    # "constant", an operand that needs no grad; "cut", an operand that lost its gradient;
    # "outside", the tensor of another graph that a cut started from.
    kind: str
    constant: Constant | None  # the operand; None for an outside tensor
    source: TensorRef | None  # the outside tensor, while it lives; None for an operand
    inferred: bool  # whether it was inferred rather than watched
    sources: tuple[int, ...] = ()  # for a cut, the node where each of the constant's cuts started

    @property
    def tensor(self) -> torch.Tensor | None:
        """The tensor, while it lives."""
        reference = self.constant.tensor if self.constant is not None else self.source
        return reference() if reference is not None else None


def with_extras(
    captured: Capture,
    names: Names,
    annotations: Mapping[int, Annotation],
    operands: Collection[Operand],
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

    def add(self, operand: Operand) -> None:
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

    def _operand(self, operand: Operand) -> int:
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
                [cut.how for cut in cuts],
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

    def _source(self, cut: Cut, operand: Operand) -> int:
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
        # A tensor changed in place later has another node now, perhaps this very one.
        nodes = self._captured.attributes
        return bool(
            nodes[source]["kind"] == "leaf"
            or nodes[source]["sequence_nr"] < nodes[node]["sequence_nr"]
        )

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


MOST_INFERRED = 2_000
"""Nothing is inferred unasked in larger graphs: it would read every saved tensor."""


class ModuleRoots:
    """The names of the outermost modules.

    If one variable holds all of them, paths leave out its name. So a path in a called model starts
    inside it, and a path in ``agent.actor(x)`` starts with "actor". Modules that no variable holds
    get their class and a number.

    Example::

        >>> ModuleRoots([], Names()).name_of(None)
        ''
    """

    def __init__(self, annotations: Iterable[Annotation], names: Names) -> None:
        # Python makes one weak reference per module, so its id identifies even a deleted module.
        self._held = {id(each.outermost): each for each in annotations if each.outermost}
        found: dict[int, tuple[str, str] | None] = {}
        for key, annotation in self._held.items():
            module = annotation.outermost() if annotation.outermost is not None else None
            found[key] = names.place_of(module) if module is not None else None
        variables = {place[0] for place in found.values() if place is not None}
        is_one = len(variables) == 1 and None not in found.values()
        # The variable that paths leave out; "" for none.
        self.variable = next(iter(variables)) if is_one else ""
        self._names: dict[int, str] = {}
        for key, place in found.items():
            if place is None:
                self._names[key] = self._nameless(key) if len(found) > 1 else ""
            else:
                variable, path = place
                self._names[key] = path[len(variable) :].lstrip(".") if is_one else path

    def name_of(self, call: ModuleCall | Annotation | None) -> str:
        """Return the name of a call's outermost module; "" if paths start inside it."""
        return "" if call is None else self._names.get(id(call.outermost), "")

    def path_of(self, call: ModuleCall) -> str:
        """Return a module's path with the name of its outermost module."""
        return joined(self.name_of(call), call.path)

    def qualified(self, annotation: Annotation) -> Annotation:
        """Return an annotation with these names in its paths."""
        name = self.name_of(annotation)
        if not name or annotation.module is None:
            return annotation
        return annotation._replace(
            module=joined(name, annotation.module),
            modules=tuple((joined(name, path), kind) for path, kind in annotation.modules),
        )

    def _nameless(self, key: int) -> str:
        kind = self._held[key].module_root
        taken = sum(name.startswith(f"({kind}") for name in self._names.values())
        return f"({kind} {taken + 1})" if taken else f"({kind})"


@dataclass(frozen=True)
class Annotated(Capture):
    """A captured graph with the facts that autograd nodes do not hold."""

    drawing: Callable[[], nx.MultiDiGraph]  # returns ``drawn``, which it builds once
    annotations: dict[int, Annotation]  # annotation of each watched autograd node, by id
    extras: list[Extra]  # the extra nodes, in order; the first has the id `first_extra`
    module_roots: ModuleRoots
    regions: list[Region]  # the checkpointed regions; the nodes of ``drawn`` carry their numbers
    derivatives: list[Derivative]  # the tensors that were computed as derivatives
    calls: int = 0  # how many calls of opened compiled code follow the autograd nodes

    @property
    def drawn(self) -> nx.MultiDiGraph:
        """The autograd nodes with more attributes than in ``graph``, then the extra nodes."""
        return self.drawing()

    @property
    def first_extra(self) -> int:
        """The id of the first extra node."""
        return len(self.nodes) + self.calls

    def extra(self, node: int) -> Extra:
        """Return the extra node with an id."""
        return self.extras[node - self.first_extra]

    def watched(self) -> nx.MultiDiGraph:
        """Return a copy of the graph without inferred nodes, which come last."""
        if not self.annotations and not self.calls:
            return self.graph.copy()
        seen = [node for node, is_inferred in self.drawn.nodes(data="inferred") if not is_inferred]
        return self.drawn.subgraph(seen).copy()


def watched(captured: Capture) -> dict[int, Annotation]:
    """Return the annotations of a graph by node id; see `annotations_in`."""
    return annotations_in(captured, records_in(captured))


def annotate(captured: Capture, names: Names, *, infer: bool, look: bool = True) -> Annotated:
    """Add to a captured graph what `watch` recorded, and on request what can be inferred.

    Returns the graph with ``drawn``: every node's ``source``, ``namespace``, ``call`` and
    ``inplace``, every edge's ``kind``, and nodes of the kinds "constant", "cut" and "outside" at
    the end. If nothing was watched and nothing is to be inferred, ``drawn`` is ``graph`` itself.
    """
    seen = watched(captured) if look else {}
    roots = ModuleRoots(seen.values(), names)
    annotations = {node: roots.qualified(annotation) for node, annotation in seen.items()}
    parts = parts_in(captured.nodes, {node: each.frame for node, each in annotations.items()})
    regions = find_regions(captured, parts, annotations)
    for node, number in innermost(regions).items():
        captured.attributes[node]["checkpoint"] = number
    drawing, extras = captured.described, list[Extra]()
    if annotations or infer:
        operands = list(watched_operands(annotations))
        if infer:
            operands += inferred_operands(captured, names, annotations)
        drawing, extras = with_extras(captured, names, annotations, operands)
    return Annotated(
        **{field.name: getattr(captured, field.name) for field in fields(Capture)},
        drawing=drawing,
        annotations=annotations,
        extras=extras,
        module_roots=roots,
        regions=regions,
        derivatives=derivatives_in(captured, names),
    )
