"""The drawing of a live graph: its boxes, small values and open nodes."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Set
from dataclasses import replace

import torch

from ..backward.recorded_run import RecordedRun
from ..explain import describe_node as why
from ..graph.names import Names
from ..plugins import Hook
from ..schema.details import DetailsModel
from ..schema.graph import GraphModel
from ..torch_api.modes import unseen
from ..tracing.annotate import Annotated
from ..tracing.double_backward import pairs
from ..tracing.values import Drawn, drawn_values
from .distributed_leaves import DistributedLeaves
from .func_boxes import about_transforms, within_transforms
from .graph_model import graph_model, modules_model
from .module_classes import classes_of_modules
from .open_nodes import Opening, boxes_inside
from .regions import NO_REGIONS, Regions

Namespaces = Mapping[int, str]
"""Node id -> path of its module or box, with slashes."""

INFER_MODULES: Hook[Callable[[Annotated, Names], Callable[[], Namespaces]]] = Hook()
"""Reads the modules, and returns a function that infers each node's module."""

BOXES: Hook[Callable[[Annotated, Namespaces], Namespaces]] = Hook()
"""Boxes for nodes in no module, given the modules that were inferred."""

FIND_REGIONS: Hook[Callable[[Annotated, Names, Namespaces, Namespaces], Regions]] = Hook()
"""Boxes and sentences for checkpointed regions, given the modules and boxes of nodes."""


class LiveDrawing:
    """The drawing of a live graph; each part is computed on first use.

    Modules and values are stored by the ids of the closed graph. Opening a node changes the ids of
    the drawing, and the public methods use these.
    """

    def __init__(
        self,
        closed: Annotated,
        names: Names,
        opening: Opening,
        freed: Set[int],
        shared: DistributedLeaves,
    ) -> None:
        """Look at the graph with every node closed.

        Args:
            closed: The graph.
            names: The user's names for tensors and modules.
            opening: Which nodes are open.
            freed: Ids of the nodes whose saved tensors are gone; its owner adds to it.
            shared: The leaves that several processes have together, or several modules.
        """
        self._opening = opening
        self._freed = freed
        self._shared = shared
        self._closed = closed
        # The names themselves would keep other graphs alive.
        infer = INFER_MODULES.first()
        self._infer = (dict) if infer is None else infer(closed, names)
        self._known_classes = names.classes
        self._regions = self._found_regions(names)
        self._derived = why.about_derivatives(closed)

    def _found_regions(self, names: Names) -> Regions:
        find = FIND_REGIONS.first()
        if find is None or not self._closed.regions:
            return NO_REGIONS
        return find(self._closed, names, self._inferred, self._boxes)

    @property
    def _inferred(self) -> Mapping[int, str]:
        """The modules of the nodes, where these are inferred."""
        return self._infer()

    @functools.cached_property
    def _boxes(self) -> Mapping[int, str]:
        """The boxes of nodes outside of modules."""
        return {
            node: box
            for boxes in BOXES
            for node, box in boxes(self._closed, self._inferred).items()
        }

    @functools.cached_property
    def _classes(self) -> dict[str, str]:
        """The classes of the modules."""
        return classes_of_modules(self._closed, self._known_classes, self._inferred)

    @functools.cached_property
    def namespaces(self) -> Mapping[int, str]:
        """The modules of the nodes, watched or inferred."""
        drawn = self._opening.captured.drawn
        watched = {node: space for node, space in drawn.nodes(data="namespace") if space}
        return self._opening.moved(self._inferred) or watched

    @functools.cached_property
    def model(self) -> GraphModel:
        """The drawn graph."""
        regions, moved = self._regions, self._opening.moved
        captured = self._opening.captured
        boxes, classes = boxes_inside(self._opening)
        model = graph_model(
            captured.drawn,
            moved(self._inferred),
            modules_model(regions.with_classes({**self._classes, **classes})),
            {**self.values.values, **self._opening.values()},
            captured.nodes,
            boxes={**moved(self._boxes), **moved(regions.spaces), **boxes},
            changed=self.values.changed,
            regions=moved(regions.numbers),
            checkpoints=regions.models,
            derivatives=pairs(captured.derivatives),
        )
        for node, sign in moved(self._shared.signs).items():
            model["nodes"][node]["sign"] = sign
        return within_transforms(model, captured.transforms)

    @functools.cached_property
    def values(self) -> Drawn:
        """The small values by the ids of what is drawn now."""
        known, moved = self._values, self._opening.moved
        return replace(known, values=moved(known.values), changed=moved(known.changed))

    @functools.cached_property
    def _values(self) -> Drawn:
        """The small values of the nodes, read when the graph is first drawn."""
        with unseen(), torch.no_grad():
            try:
                return drawn_values(self._opening.captured, bool(self._freed))
            except Exception:  # draw the picture without numbers
                return Drawn({}, {}, {}, had_run=False)

    def read_now(self) -> None:
        """The small values; of compiled code all, parts of which its first pass forgets."""
        _ = self.model if self._opening.openable else self._values

    def expand(self, node: int) -> None:
        """Show what is inside of a node.

        Raises:
            ValueError: It has nothing inside that can be shown.
        """
        _ = self._values  # read them before the ids change
        self._opening.expand(node)
        self._redraw()

    def collapse(self, node: int) -> None:
        """Hide it again.

        Raises:
            ValueError: It has nothing inside.
        """
        self._opening.collapse(node)
        self._redraw()

    def show(self, run: RecordedRun | None) -> bool:
        """Show another pass: its recorded operations replace the open nodes of the last one.

        Returns:
            Whether the graph is drawn anew.
        """
        is_other = self._opening.show(run)
        if is_other:
            self._redraw()
        return is_other

    def _redraw(self) -> None:
        for known in ("model", "namespaces", "values"):
            self.__dict__.pop(known, None)

    def add_to(self, found: DetailsModel, node: int) -> None:
        """Add a node's module, region, shared names and transforms to its details."""
        tied = self._shared.tied.get(node)
        if tied is not None:
            found["about"] = f"{why.about_tied(tied)} {found['about']}"
        if found["module"] is None and self.namespaces.get(node):
            found["module"] = self.namespaces[node].replace("/", ".")
        if node in self._derived:
            found["about"] += f" {self._derived[node]}"
        found["checkpoint"] = self._regions.about(node)
        transforms = about_transforms(self._opening.captured.transforms)
        found["about"] = f"{transforms}{found['about']}"

    def clone(self, opening: Opening, freed: Set[int]) -> LiveDrawing:
        """Copy the drawing; each copy opens and closes nodes separately."""
        other = copy.copy(self)
        other._opening, other._freed = opening, freed
        return other
