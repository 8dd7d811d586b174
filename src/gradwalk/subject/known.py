"""What is known of a graph beyond its nodes: read when somebody first asks, or before it is gone.

Whoever only follows a graph in a training loop pays for its walk and its hooks. Of a small one, in
which every number counts, all is read at once, before the program changes or drops anything. Of a
large one the rest waits until it is asked for; what a backward pass is about to free is read when
it begins.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import torch

from ..forward.annotate import Annotated, annotate
from ..forward.records import any_alive
from ..forward.values import Drawn, drawn_values, held_values
from ..graph.capture import Capture
from ..graph.collector import collector_paused
from ..graph.modes import grad_mode_kept, unseen
from ..graph.names import Names
from ..graph.saved import is_freed
from ..modules.module_classes import classes_of_modules
from ..modules.namespaces import inferred_namespaces
from ..modules.outside import boxes_outside
from ..wire import Values
from .checkpointed import Checkpointed, checkpointed
from .shared_leaves import SharedLeaves
from .subject import MOST_SHOWN


@dataclass(frozen=True)
class Modules:
    """The modules that the nodes of a graph belong to, and what else its leaves are.

    Attributes:
        inferred: Node id -> namespace, where nobody watched.
        classes: Namespace -> class.
        boxes: Node id -> box, of operations outside of modules.
        checkpointed: The regions that run forward again in backward.
        tied: Leaf -> the names of a parameter that stands in several places.
        shared: The leaves that other ranks have a part in.
    """

    inferred: Mapping[int, str]
    classes: Mapping[str, str]
    boxes: Mapping[int, str]
    checkpointed: Checkpointed
    tied: Mapping[int, list[str]]
    shared: SharedLeaves


class Known:
    """What is known of a graph, each part worked out once."""

    def __init__(self, plain: Capture, names: Names, *, infer: bool) -> None:
        """Note what the program may drop until somebody asks.

        Args:
            plain: The graph.
            names: What the user calls tensors and modules. They know of other graphs, which must
                not live as long as this one: of them, what is about this graph is kept, and the
                modules whose parameters are in it, until they are looked at.
            infer: Whether to infer constants and cuts that nobody watched.
        """
        self._plain = plain
        self._infer = infer
        self._lock = threading.RLock()
        self._captured = plain if isinstance(plain, Annotated) else None
        self._values: Drawn | None = None
        self._modules: Modules | None = None
        self._names = names
        self._held: Collection[torch.nn.Module] = ()
        self._noted: dict[int, Values] = {}
        if self._captured is not None or len(plain.nodes) <= MOST_SHOWN or any_alive():
            self.read()
            _ = self.modules
        else:
            self._names = _about(plain, names)
            self._held = _modules_with_leaves(plain, names)
            with unseen(), torch.no_grad():
                self._noted = held_values(plain)

    def read(self) -> None:
        """Read what backward frees and what an optimizer changes."""
        _ = self.captured, self.values
        if self.captured.regions:  # what is checkpointed is told by what was saved
            _ = self.modules

    @property
    def captured(self) -> Annotated:
        """The graph with what `watch` saw, and what can be inferred."""
        if self._captured is None:
            with self._lock:
                if self._captured is None:
                    self._captured = self._annotated()
        return self._captured

    @grad_mode_kept
    def _annotated(self) -> Annotated:
        with collector_paused(), unseen():
            return annotate(self._plain, self._names, infer=self._infer)

    @functools.cached_property
    def freed(self) -> set[int]:
        """Ids of the nodes whose saved tensors are gone."""
        return {i for i, node in enumerate(self._plain.nodes) if is_freed(node)}

    @property
    def values(self) -> Drawn:
        """The small values of the nodes."""
        if self._values is None:
            with self._lock:
                if self._values is None:
                    self._values = self._read_values()
                    self._noted = {}
        return self._values

    @grad_mode_kept
    def _read_values(self) -> Drawn:
        with unseen(), torch.no_grad():
            try:
                return drawn_values(self.captured, bool(self.freed), self._noted)
            except Exception:  # the picture is worth having without numbers
                return Drawn({}, {}, {}, had_run=False)

    @property
    def modules(self) -> Modules:
        """Which module each node belongs to."""
        if self._modules is None:
            with self._lock:
                if self._modules is None:
                    self._modules = self._found()
                    self._names, self._held = Names(), ()
        return self._modules

    @grad_mode_kept
    def _found(self) -> Modules:
        captured, names = self.captured, self._names
        with collector_paused(), unseen():
            inferred = inferred_namespaces(captured, names)
            boxes = boxes_outside(captured, inferred)
            return Modules(
                inferred=inferred,
                classes=classes_of_modules(captured, names, inferred),
                boxes=boxes,
                checkpointed=checkpointed(captured, names, inferred, boxes),
                tied={
                    node: tied for node, leaf in captured.leaves() if (tied := names.tied_to(leaf))
                },
                shared=SharedLeaves(captured, names),
            )


def _about(plain: Capture, names: Names) -> Names:
    """The names without those of other graphs, whose nodes they would keep alive."""
    nodes = set(plain.nodes) if names.edges or names.tensors else set()
    return replace(
        names,
        edges={edge: name for edge, name in names.edges.items() if edge[0] in nodes},
        tensors={edge: ref for edge, ref in names.tensors.items() if edge[0] in nodes},
    )


def _modules_with_leaves(plain: Capture, names: Names) -> list[torch.nn.Module]:
    """The outermost modules, by the variables they were found by, with a parameter in a graph."""
    leaves = {id(leaf) for _, leaf in plain.leaves()} if names.parameters else set()
    found = []
    for variable, parameters in names.parameters.items():
        reference = names.modules.get(variable)
        module = None if reference is None else reference()
        if module is not None and not leaves.isdisjoint(parameters):
            found.append(module)
    return found
