"""Numbers that colour the picture: of the user's own, planned or measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from numbers import Real
from typing import Any

from ..english import nearest
from ..graph.arguments import read_id, read_int
from ..schema.graph import NodeModel, OverlayModel
from ..schema.json_values import json_number
from ..sources.graph_source import GraphSource
from .controllers import Controller
from .graph_traits import GraphTraits


class OverlayController(Controller[GraphTraits]):
    """Keeps the numbers that colours can show, also for the graph of the next update."""

    name = "overlay"

    def __init__(self, widget: GraphTraits) -> None:
        super().__init__(widget)
        self._named: dict[str, tuple[dict[str, float], str]] = {}

    def overlay(self, values: Any, label: str, unit: str) -> None:
        """Show numbers of the user; see `GraphWidget.overlay`."""
        for what, text in (("label", label), ("unit", unit)):
            if not isinstance(text, str) or (what == "label" and not text):
                raise TypeError(
                    f"overlay() was given {what}={text!r}. Give a text, as in 'Fisher'."
                )
        given = read_numbers(values)
        source = self.stage.open()
        found = make_overlay(source, given, label, unit)
        named = {key: value for key, value in given.items() if isinstance(key, str)}
        self._named.pop(label, None)
        if named:
            self._named[label] = named, unit
        if given:
            self.put(found)
        else:
            source.overlays = tuple(each for each in source.overlays if each["label"] != label)
            self.on_graph(source)

    def put(self, overlay: OverlayModel) -> None:
        """Show numbers, in place of those with the same label."""
        source = self.stage.open()
        others: list[OverlayModel] = [
            {**each, "is_shown": False}
            for each in source.overlays
            if each["label"] != overlay["label"]
        ]
        source.overlays = (*others, overlay)
        self.on_graph(source)

    def on_source(self, source: GraphSource) -> None:
        """Find the modules and tensors of the same names in another graph; ids were of this one."""
        if self._named and not source.overlays:
            known = _NamedThings(source)
            kept = (
                ({key: value for key, value in values.items() if known.find(key)}, label, unit)
                for label, (values, unit) in self._named.items()
            )
            source.overlays = tuple(make_overlay(source, *each) for each in kept if each[0])

    def on_graph(self, source: GraphSource) -> None:
        """Send the numbers."""
        self.widget.set_trait("_overlays", list(source.overlays) or None)


def read_numbers(values: Any) -> dict[int | str, float]:
    """Read a mapping from nodes and names to numbers; raise TypeError for anything else."""
    if not isinstance(values, Mapping):
        raise TypeError(
            f"overlay() was given a {type(values).__name__}. Give a dict from ids, names of "
            "tensors or names of modules to numbers, as in {'layers.3': 0.7}."
        )
    found: dict[int | str, float] = {}
    for key, value in values.items():
        number = value.item() if getattr(value, "numel", lambda: 0)() == 1 else value
        if isinstance(number, bool) or not isinstance(number, Real):
            kind = type(value).__name__
            raise TypeError(f"overlay() was given a {kind} for {key!r}. Give one real number.")
        place = key if isinstance(key, str) else read_int(key, "overlay() was given ", _IDS)
        found[place] = float(number)
    return found


_IDS = "Give the id of a node, or the name of a tensor or module."


def make_overlay(
    source: GraphSource, values: Mapping[Any, float], label: str, unit: str
) -> OverlayModel:
    """Return the numbers by node and box; a node without one has that of its module."""
    known = _NamedThings(source)
    nodes: dict[int, float] = {}
    modules: dict[str, float] = {}
    for key, value in values.items():
        if isinstance(key, str):
            own, path = known.require(key)
            nodes.update(dict.fromkeys(own, value))
            if path is not None:
                modules[path] = value
        else:
            nodes[read_id(key, "overlay() was given node ", known.count, _IDS)] = value
    for node in known.nodes if modules else ():
        inner = [path for path in _paths(node["namespace"]) if path in modules]
        if inner and node["id"] not in nodes:
            nodes[node["id"]] = modules[inner[-1]]
    return {
        "label": label,
        "unit": unit,
        "nodes": list(nodes),
        "values": [json_number(value) for value in nodes.values()],
        "modules": list(modules),
        "module_values": [json_number(value) for value in modules.values()],
        "adds_up": False,
        "is_shown": True,
    }


def amounts(label: str, unit: str, values: Mapping[int, float]) -> OverlayModel:
    """Return amounts of the nodes that add up over a box."""
    return {
        "label": label,
        "unit": unit,
        "nodes": list(values),
        "values": [json_number(value) for value in values.values()],
        "modules": [],
        "module_values": [],
        "adds_up": True,
        "is_shown": False,
    }


class _NamedThings:
    def __init__(self, source: GraphSource) -> None:
        model = source.model
        self.nodes: list[NodeModel] = model["nodes"]  # the drawn nodes
        # How many of them are autograd nodes, or all of a static graph.
        self.count = len(source.graph)
        self._tensors: dict[str, list[int]] = {}
        for root in model["roots"]:
            if root["name"]:
                self._tensors.setdefault(root["name"], []).append(root["node"])
        for node in self.nodes:
            if node["name"] and node["id"] not in self._tensors.get(node["name"], ()):
                self._tensors.setdefault(node["name"], []).append(node["id"])
        spaces = {node["namespace"] for node in self.nodes}
        paths = {path for space in spaces for path in _paths(space)}
        self._modules = {path.replace("/", "."): path for path in sorted(paths)}
        # A module may be named from the variable of its model, or without it.
        tails = Counter(name.partition(".")[2] for name in self._modules)
        for name, path in [*self._modules.items()]:
            tail = name.partition(".")[2]
            if tail and tails[tail] == 1:
                self._modules.setdefault(tail, path)
        for name in self._tensors:
            model_name, _, rest = name.partition(".")
            for outer in _paths(rest.replace(".", "/")):
                if outer in paths:
                    long = f"{model_name}.{outer.replace('/', '.')}"
                    self._modules.setdefault(long, outer)

    def find(self, name: str) -> tuple[list[int], str | None] | None:
        """Return the nodes of a tensor, and the namespace of a module; None if there is neither."""
        found = self._tensors.get(name, []), self._modules.get(name)
        return found if found != ([], None) else None

    def require(self, name: str) -> tuple[list[int], str | None]:
        """Return the same.

        Raises:
            ValueError: There is neither.
        """
        found = self.find(name)
        if found is None:
            near = nearest(name, [*self._tensors, *self._modules])
            raise ValueError(
                f"overlay() was given {name!r}, but this graph has no such tensor or module. "
                f"{near or _IDS}"
            )
        return found


def _paths(namespace: str | None) -> Iterator[str]:
    """Yield a namespace and those around it, the outermost first."""
    parts = (namespace or "").split("/")
    return accumulate((part for part in parts if part), lambda outer, part: f"{outer}/{part}")
