"""Graphs of earlier updates of a widget that are still alive, and a line of the panel."""

from __future__ import annotations

import weakref
from typing import Any

from ...checks.held_graph import HeldGraph
from ...graph.adjacency import collector_paused
from ...graph.names import Names
from ...result import make
from ...sources.graph_source import GraphSource
from ...torch_api.nodes import AccumulateGrad
from ...widget.controllers import Controller
from ...widget.graph_traits import GraphTraits
from .held import Group, Number, held_graphs, number_of

_KEY = "gradwalk.held"
_GROWS = (
    "The graph of this step contains those of earlier ones. Detach what goes from step to step, as "
    "in `state = state.detach()`."
)


class _Mark:
    """It lives as long as the node that it marks."""


class HeldController(Controller[GraphTraits]):
    """Knows which of the graphs that the widget has shown are alive."""

    name = "held"

    def __init__(self, widget: GraphTraits) -> None:
        super().__init__(widget)
        self._shown: list[tuple[weakref.ref[_Mark], Number]] = []
        self._now: set[Number] = set()

    def on_source(self, source: GraphSource) -> None:
        """Mark the nodes that the graph starts from."""
        captured = source.autograd
        self._now = set()
        if captured is None:
            return
        self._shown = [each for each in self._shown if each[0]() is not None]
        for node in {captured.nodes[root] for root, _ in captured.roots}:
            if not isinstance(node, AccumulateGrad):
                mark = _Mark()
                known: Any = node.metadata
                known.setdefault(_KEY, mark)
                self._shown.append((weakref.ref(known[_KEY]), number_of(node)))
                self._now.add(number_of(node))

    def grows(self, names: Names) -> list[HeldGraph]:
        """Find the earlier graphs; see `GraphWidget.grows`."""
        earlier = {number for mark, number in self._shown if mark() is not None} - self._now
        if not earlier:
            return []
        with collector_paused():
            groups = held_graphs(names, among=earlier)
            return [self._result(each, earlier) for each in groups]

    def _result(self, group: Group, earlier: set[Number]) -> HeldGraph:
        """Return a group; a graph that contains earlier ones counts as so many."""
        result = group.result()
        numbers = {number_of(node) for graph in group.graphs for node in graph.nodes}
        if not numbers & self._now:
            return result
        found = len(numbers & earlier)
        return make(HeldGraph, found, result.bytes, result.holders, result.line, _GROWS)

    def mask(self, trait: str, value: Any) -> Any:
        """Say in the panel of an output what the diagnosis has found about earlier graphs."""
        if trait != "details" or not value:
            return value
        about = [
            finding["message"]
            for finding in self.widget._findings or ()
            if finding["kind"] == "held" and value["id"] in finding["nodes"]
        ]
        return {**value, "about": " ".join((value["about"], *about))} if about else value
