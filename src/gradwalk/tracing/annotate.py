"""The captured graph with what `watch` saw: source lines, modules, constants and cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from ..graph.capture import Capture
from ..graph.module_paths import below as joined
from ..graph.names import Names
from ..torch_api.checkpoints import parts_in
from .annotations import Annotation, annotations_in
from .checkpoint_regions import Region, find_regions, innermost
from .double_backward import Derivative, derivatives_in
from .extra_nodes import Extra, inferred_operands, watched_operands, with_extras
from .module_path import ModuleCall
from .records import records_in

if TYPE_CHECKING:
    import networkx as nx

MOST_INFERRED = 2_000
"""Nothing is inferred unasked in larger graphs: it would read every saved tensor."""


class ModuleRoots:
    """The names of the outermost modules.

    If one variable holds all of them, paths leave out its name. So a path in a called model starts
    inside it, and a path in ``agent.actor(x)`` starts with "actor". Modules that no variable holds
    get their class and a number.

    Attributes:
        variable: The variable that paths leave out; "" for none.

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
