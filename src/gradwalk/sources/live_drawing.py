"""The drawing of a live graph: its boxes, small values and open nodes."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from ..backward.recorded_run import RecordedRun
from ..explain import describe_node as why
from ..graph.index_signs import with_place
from ..graph.names import Names, ancestors
from ..plugins import Hook
from ..schema.details import DetailsModel
from ..schema.graph import CheckpointModel, GraphModel
from ..torch_api.modes import unseen
from ..tracing.annotate import Annotated
from ..tracing.double_backward import pairs
from ..tracing.values import Drawn, drawn_values
from .distributed import DistributedLeaves
from .graph_model import graph_model, modules_model
from .live_passes import LivePasses
from .open_nodes import Opening, boxes_inside


@dataclass(frozen=True)
class Regions:
    """The checkpointed regions of a graph, as they are drawn."""

    models: list[CheckpointModel]  # the regions, by number
    numbers: dict[int, int]  # node id -> the number of its innermost region
    spaces: dict[int, str]  # node id -> namespace, of the nodes in boxes that are drawn for regions
    modules: dict[str, str]  # namespace in such a box -> namespace of the module

    def about(self, node: int) -> str | None:
        """Return the sentence about a node's region; None outside of regions."""
        number = self.numbers.get(node)
        return None if number is None else self.models[number]["about"]

    def with_classes(self, classes: Mapping[str, str]) -> dict[str, str]:
        """The classes of modules by namespace, for the boxes in those of regions as well."""
        inner = {space: classes[plain] for space, plain in self.modules.items() if plain in classes}
        return {**classes, **inner}


NO_REGIONS = Regions([], {}, {}, {})  # the regions of a graph without checkpointed parts


Namespaces = Mapping[int, str]  # node id -> path of its module or box, with slashes

INFER_MODULES: Hook[Callable[[Annotated, Names], Callable[[], Namespaces]]] = Hook()
"""Reads the modules, and returns a function that infers each node's module."""

BOXES: Hook[Callable[[Annotated, Namespaces], Namespaces]] = Hook()
"""Boxes besides those of modules, given the modules that were inferred and the boxes so far."""

FIND_REGIONS: Hook[Callable[[Annotated, Names, Namespaces, Namespaces], Regions]] = Hook()
"""Boxes and sentences for checkpointed regions, given the modules and boxes of nodes."""


class LiveDrawing:
    """The drawing of a live graph; each part is computed on first use.

    Modules and values are stored by the ids of the closed graph. Opening a node changes the ids of
    the drawing, and the public members use these.
    """

    def __init__(self, closed: Annotated, names: Names, passes: LivePasses, max_bytes: int) -> None:
        """Begin with every node closed; ``max_bytes`` of tensors inside each node are kept."""
        self.opening = Opening(closed, max_bytes)  # the graph with its open nodes
        # The leaves that several processes have together, or several modules.
        self.shared = DistributedLeaves(closed, names)
        self._passes = passes
        self._closed = closed
        # The names themselves would keep other graphs alive.
        infer = INFER_MODULES.first()
        self._infer = dict if infer is None else infer(closed, names)
        self._known_classes = names.classes
        find = FIND_REGIONS.first() if closed.regions else None
        self._regions = (
            NO_REGIONS if find is None else find(closed, names, self._inferred, self._boxes)
        )
        self._derived = why.about_derivatives(closed)

    def clone(self, passes: LivePasses) -> LiveDrawing:
        """Copy the drawing; each copy opens and closes nodes separately."""
        other = copy.copy(self)
        other.opening, other._passes = self.opening.clone(), passes
        return other

    @property
    def _inferred(self) -> Namespaces:
        return self._infer()

    @functools.cached_property
    def _boxes(self) -> Namespaces:
        found: dict[int, str] = {}
        for boxes in BOXES:
            with contextlib.suppress(Exception):  # draw the picture without these boxes
                found |= boxes(self._closed, {**self._inferred, **found})
        return found

    @functools.cached_property
    def _classes(self) -> dict[str, str]:
        return _classes_of_modules(self._closed, self._known_classes, self._inferred)

    @functools.cached_property
    def _values(self) -> Drawn:
        """The small values of the nodes, read when the graph is first drawn."""
        with unseen(), torch.no_grad():
            try:
                return drawn_values(self._closed, bool(self._passes.freed))
            except Exception:  # draw the picture without numbers
                return Drawn({}, {}, {}, had_run=False)

    @functools.cached_property
    def values(self) -> Drawn:
        """The small values of the drawn nodes."""
        known, moved = self._values, self.opening.moved
        return replace(known, values=moved(known.values), changed=moved(known.changed))

    @functools.cached_property
    def namespaces(self) -> Namespaces:
        """The modules of the drawn nodes, watched or inferred."""
        drawn = self.opening.captured.drawn
        watched = {node: space for node, space in drawn.nodes(data="namespace") if space}
        return self.opening.moved(self._inferred) or watched

    @functools.cached_property
    def model(self) -> GraphModel:
        """The drawn graph as plain values."""
        opening, regions, moved = self.opening, self._regions, self.opening.moved
        captured = opening.captured
        boxes, classes = boxes_inside(opening)
        model = graph_model(
            captured.drawn,
            moved(self._inferred),
            modules_model(regions.with_classes({**self._classes, **classes})),
            {**self.values.values, **opening.values()},
            captured.nodes,
            boxes={**moved(self._boxes), **moved(regions.spaces), **boxes},
            changed=self.values.changed,
            regions=moved(regions.numbers),
            checkpoints=regions.models,
            derivatives=pairs(captured.derivatives),
            in_backward=captured.in_backward,
        )
        for node, place in captured.places.items():
            found = model["nodes"][node]
            found["sign"] = with_place(found["sign"], place)
        for node, sign in moved(self.shared.signs).items():
            model["nodes"][node]["sign"] = sign
        return _within_transforms(model, captured.transforms)

    def read_now(self) -> None:
        """Read the small values; of compiled code all, parts of which its first pass forgets."""
        _ = self.model if self.opening.openable else self._values

    def expand(self, node: int) -> None:
        """Open a node; raise ValueError if it has nothing inside that can be shown."""
        _ = self._values  # read them before the ids change
        self.opening.expand(node)
        self._redraw()

    def collapse(self, node: int) -> None:
        """Close a node; raise ValueError if it has nothing inside."""
        self.opening.collapse(node)
        self._redraw()

    def show(self, run: RecordedRun | None) -> None:
        """Show another pass: its recorded operations replace those in the open nodes."""
        if self.opening.show(run):
            self._redraw()

    def _redraw(self) -> None:
        for known in ("model", "namespaces", "values"):
            self.__dict__.pop(known, None)

    def add_to(self, found: DetailsModel, node: int) -> None:
        """Add a node's module, region, shared names and transforms to its details."""
        tied = self.shared.tied.get(node)
        if tied is not None:
            found["about"] = f"{why.about_tied(tied)} {found['about']}"
        if found["module"] is None and self.namespaces.get(node):
            found["module"] = self.namespaces[node].replace("/", ".")
        if node in self._derived:
            found["about"] += f" {self._derived[node]}"
        found["checkpoint"] = self._regions.about(node)
        found["about"] = f"{_about_transforms(self._closed.transforms)}{found['about']}"


def _within_transforms(model: GraphModel, transforms: Sequence[str]) -> GraphModel:
    """Put a graph into a box per ``torch.func`` transform, one in the other."""
    if not transforms:
        return model
    box = "/".join(f"torch.func.{each}" for each in transforms)

    def boxed(space: str) -> str:
        return f"{box}/{space}" if space else box

    modules = model["modules"]
    return {
        **model,
        "nodes": [
            {**node, "namespace": boxed(node["namespace"] or "")}
            if node["kind"] == "op" or node["namespace"] is not None
            else node
            for node in model["nodes"]
        ],
        "modules": {**modules, "namespaces": [boxed(each) for each in modules["namespaces"]]},
        "checkpoints": [
            {**region, "box": None if region["box"] is None else boxed(region["box"])}
            for region in model["checkpoints"]
        ],
    }


def _about_transforms(transforms: Sequence[str]) -> str:
    """Describe the transforms in a sentence; empty without any."""
    if not transforms:
        return ""
    hides = any(each.startswith("vmap") for each in transforms)
    samples = " Shapes are per sample, without the dimension of vmap." if hides else ""
    return f"Recorded within torch.func: {', in it '.join(transforms)}.{samples} "


def _classes_of_modules(
    captured: Annotated, known: Mapping[str, str], inferred: Mapping[int, str]
) -> dict[str, str]:
    """Return the class of each module with nodes, by namespace, where it is known.

    They are in the order in which the program first ran an operation of each.
    """
    spaces: Mapping[int, str | None] = inferred
    if not inferred:
        spaces = dict(captured.drawn.nodes(data="namespace"))
        known = _watched(captured, known)
    ran = dict.fromkeys(spaces.get(node) for node in captured.operations)
    inner = filter(None, dict.fromkeys([*ran, *spaces.values()]))
    used = dict.fromkeys(space for each in inner for space in ancestors(each, "/"))
    by_space = {path.replace(".", "/"): kind for path, kind in known.items()}
    return {space: by_space[space] for space in used if space and space in by_space}


def _watched(captured: Annotated, known: Mapping[str, str]) -> dict[str, str]:
    """Path -> class of modules that ran, and of containers whose name is known."""
    seen: dict[str, set[str]] = {}
    for call in {call for each in captured.annotations.values() for call in each.modules}:
        seen.setdefault(call[0], set()).add(call[1])
    # Two watched models may both have a module of this name.
    ran = {path: kinds.pop() for path, kinds in seen.items() if len(kinds) == 1}
    if len(seen.get("", ())) > 1 or "" not in ran:
        return ran
    for prefix in (path for path, kind in known.items() if kind == ran[""]):
        start = f"{prefix}." if prefix else ""
        if all(known.get(start + path if path else prefix) == kind for path, kind in ran.items()):
            inner = {p[len(start) :]: k for p, k in known.items() if p.startswith(start)}
            return {**inner, **ran}
    return ran
