"""The captured graph with what `watch` saw: source lines, modules, constants and cuts.

Constants, cuts and tensors outside the graph become extra nodes. An operand that needs no grad is
known from `watch`, or inferred from what a node saved.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields

from ..graph.capture import Capture
from ..graph.names import Names
from ..graph.names import below as joined
from ..lazily import nx
from ..torch_api.checkpoints import parts_in
from .annotations import Annotation, annotations_in
from .checkpoint_regions import Region, find_regions, innermost
from .constant_operands import inferred_operands, watched_operands
from .double_backward import Derivative, derivatives_in
from .extra_nodes import Extra, with_extras
from .module_roots import ModuleRoots
from .records import records_in


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

    @functools.cached_property
    def in_backward(self) -> frozenset[int]:
        """The nodes that `watch` did not see made: by backward, with ``create_graph=True``."""
        return frozenset().union(*(each.below for each in self.derivatives))

    @property
    def places(self) -> dict[int, str]:
        """The places that nodes assigned to, as Python writes an index."""
        return {
            node: each.place
            for node, each in self.annotations.items()
            if each.place is not None and self.attributes[node]["op"] == "CopySlices"
        }

    @property
    def first_extra(self) -> int:
        """The id of the first extra node."""
        return len(self.nodes) + self.calls

    def module_of(self, node: int) -> str | None:
        """The path of the module that ran a node, with its variable; None if nobody watched it."""
        seen = self.annotations.get(node)
        if seen is None:
            return None
        if seen.module is None or seen.module.startswith("("):
            return seen.module or ""
        return joined(self.module_roots.variable, seen.module)

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
