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
from ..torch_api.checkpoints import may_have_parts, parts_in
from .annotations import Annotation, annotations_in
from .checkpoint_regions import Region, find_regions, innermost
from .constant_operands import inferred_operands, watched_operands
from .double_backward import Derivative, derivatives_in, has_derivatives
from .extra_nodes import Extra, with_extras
from .module_roots import ModuleRoots
from .records import has_records, records_in


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


class _Draft:
    """The annotations of a captured graph, as far as the passes have come."""

    def __init__(self, captured: Capture, names: Names, *, infer: bool, look: bool) -> None:
        self.captured, self.names, self.infer, self.look = captured, names, infer, look
        self.roots = ModuleRoots((), names)
        self.annotations: dict[int, Annotation] = {}
        self.regions: list[Region] = []
        self.drawing, self.extras = captured.described, list[Extra]()
        self.derivatives: list[Derivative] = []


def _note_calls(draft: _Draft) -> None:
    seen = watched(draft.captured)
    draft.roots = ModuleRoots(seen.values(), draft.names)
    draft.annotations = {node: draft.roots.qualified(each) for node, each in seen.items()}


def _note_regions(draft: _Draft) -> None:
    captured, annotations = draft.captured, draft.annotations
    parts = parts_in(captured.nodes, {node: each.frame for node, each in annotations.items()})
    draft.regions = find_regions(captured, parts, annotations)
    for node, number in innermost(draft.regions).items():
        captured.attributes[node]["checkpoint"] = number


def _add_operands(draft: _Draft) -> None:
    captured, names, annotations = draft.captured, draft.names, draft.annotations
    operands = list(watched_operands(annotations))
    if draft.infer:
        operands += inferred_operands(captured, names, annotations)
    draft.drawing, draft.extras = with_extras(captured, names, annotations, operands)


def _note_derivatives(draft: _Draft) -> None:
    draft.derivatives = derivatives_in(draft.captured, draft.names)


PASSES: list[tuple[Callable[[_Draft], object], Callable[[_Draft], None]]] = [
    (lambda draft: draft.look and has_records(), _note_calls),
    (lambda draft: draft.annotations or may_have_parts(draft.captured.by_class), _note_regions),
    (lambda draft: draft.annotations or draft.infer, _add_operands),
    (lambda _: has_derivatives(), _note_derivatives),
]
"""The passes in their order, each after the condition without which it adds nothing."""


def annotate(captured: Capture, names: Names, *, infer: bool, look: bool = True) -> Annotated:
    """Add to a captured graph what `watch` recorded, and on request what can be inferred.

    Returns the graph with ``drawn``: every node's ``source``, ``namespace``, ``call`` and
    ``inplace``, every edge's ``kind``, and nodes of the kinds "constant", "cut" and "outside" at
    the end. If nothing was watched and nothing is to be inferred, ``drawn`` is ``graph`` itself.
    """
    draft = _Draft(captured, names, infer=infer, look=look)
    for needs, run in PASSES:
        if needs(draft):
            run(draft)
    return Annotated(
        **{field.name: getattr(captured, field.name) for field in fields(Capture)},
        drawing=draft.drawing,
        annotations=draft.annotations,
        extras=draft.extras,
        module_roots=draft.roots,
        regions=draft.regions,
        derivatives=draft.derivatives,
    )
