"""The captured graph with what `watch` saw: source lines, modules, constants and cuts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from ..graph.capture import Capture
from ..graph.names import Names
from ..torch_api.checkpoints import parts_in
from .annotations import Annotation, annotations_in
from .checkpoint_regions import Region, find_regions, innermost
from .constants import operands_inferred, operands_seen
from .double_backward import Derivative, derivatives_in
from .extra_nodes import Extra, with_extras
from .module_roots import Roots
from .records import records_in

if TYPE_CHECKING:
    import networkx as nx

MOST_INFERRED = 2_000
"""In graphs of more nodes nothing is inferred unasked: it means reading all that was saved."""


@dataclass(frozen=True)
class Annotated(Capture):
    """A captured graph and what is known beyond its autograd nodes.

    Attributes:
        drawing: Makes ``drawn``, or gives the one that it has made.
        annotations: What `watch` saw, by the id of the autograd node.
        extras: What each extra node stands for; the first has the id `first_extra`.
        module_roots: What the outermost modules are called.
        regions: The checkpointed regions; the nodes of ``drawn`` carry their numbers.
        derivatives: What in it was computed as the derivative of something.
        calls: How many calls of opened compiled code stand after the autograd nodes.
    """

    drawing: Callable[[], nx.MultiDiGraph]
    annotations: dict[int, Annotation]
    extras: list[Extra]
    module_roots: Roots
    regions: list[Region]
    derivatives: list[Derivative]
    calls: int = 0

    @property
    def drawn(self) -> nx.MultiDiGraph:
        """The autograd nodes, as in ``graph``, with more attributes, then the extra ones."""
        return self.drawing()

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


def watched(captured: Capture) -> dict[int, Annotation]:
    """What `watch` saw of the nodes of a graph, by node id; see `annotations_in`."""
    return annotations_in(captured, records_in(captured))


def annotate(captured: Capture, names: Names, *, infer: bool, look: bool = True) -> Annotated:
    """Add to a captured graph what `watch` saw of it, and if asked what can be inferred.

    Args:
        captured: The graph; of it, the nodes that are checkpointed get the number of their region.
        names: What the user calls the tensors.
        infer: Whether to look for constants among the saved tensors of nodes that nobody watched.
        look: Whether to look for what `watch` saw.

    Returns:
        The same with ``drawn``: every node's ``source``, ``namespace``, ``call`` and ``inplace``,
        every edge's ``kind``, and nodes of the kinds "constant", "cut" and "outside" at the end.
        Where nothing was watched and nothing is to be inferred, ``drawn`` is ``graph`` itself.
    """
    seen = watched(captured) if look else {}
    roots = Roots(seen.values(), names)
    annotations = {node: roots.rooted(annotation) for node, annotation in seen.items()}
    parts = parts_in(captured.nodes, {node: each.frame for node, each in annotations.items()})
    regions = find_regions(captured, parts, annotations)
    for node, number in innermost(regions).items():
        captured.attributes[node]["checkpoint"] = number
    drawing, extras = captured.described, list[Extra]()
    if annotations or infer:
        operands = list(operands_seen(annotations))
        if infer:
            operands += operands_inferred(captured, names, annotations)
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
