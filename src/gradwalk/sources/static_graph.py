"""A static graph of torch.export or torch.fx, as a source."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..english import plural
from ..graph.arguments import find_node
from ..lazily import nx
from ..panel.blank import blank_details
from ..panel.details import line_model
from ..panel.neighbours import consumers_of, inputs_of, outputs_of
from ..panel.value import with_origin
from ..schema.backward import RunModel, StateModel, StepModel, TransportModel
from ..schema.details import DetailsModel
from ..schema.findings import MemoryModel
from ..schema.graph import GraphModel
from ..static.capture_static import StaticCapture, about
from .graph_model import graph_model, modules_model
from .graph_source import ReadOnlySource
from .saved_graph import no_backward

_HELD = "The tensor that the program holds."


class StaticGraph(ReadOnlySource):
    """A static graph; see `gradwalk.sources.graph_source.GraphSource`."""

    direction = "up"  # so that its data flows down
    is_watched = False
    recorded: object | None = None
    run: RunModel | None = None

    def __init__(self, captured: StaticCapture) -> None:
        self.captured = captured  # the graph
        self.graph, self.drawn = captured.graph, captured.drawn
        self.steps: list[StepModel] = []

    @functools.cached_property
    def model(self) -> GraphModel:
        return graph_model(self.drawn, modules=modules_model(self.captured.modules))

    def backward(self, **_: Any) -> None:
        raise RuntimeError(self._no_backward)

    @property
    def _no_backward(self) -> str:
        return no_backward(self.captured.made_by)

    def state(self) -> StateModel:
        note = _note(self.captured)
        return {"runs": 0, "reached": [], "flowed": [], "freed": [], "held": [], "note": note}

    def transport(self) -> TransportModel:
        return {"owned": False, "note": None, "blocked": self._no_backward}

    def memory(self) -> MemoryModel:
        return {"nodes": [], "bytes": [], "total": 0, "unknown": 0}

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:  # noqa: ARG002
        captured, drawn = self.captured, self.drawn
        held = captured.tensors_held.get(node)
        namespace = drawn.nodes[node]["namespace"]
        consumers, consumer_count = consumers_of(drawn, node)
        inputs, input_count = inputs_of(drawn, node)
        outputs, output_count = outputs_of(drawn, node)
        with torch.no_grad():  # a click can be handled on a thread that is in another mode
            value = None if held is None else with_origin(held, _HELD, None)
        return {
            **blank_details(drawn, node, about(captured, node), self._no_backward),
            "forward": _code(captured, node),
            "is_leaf": None,
            "outputs": outputs,
            "output_count": output_count,
            "inputs": inputs,
            "input_count": input_count,
            "consumers": consumers,
            "consumer_count": consumer_count,
            "value": value,
            "source": line_model(captured.source(node)),
            "module": None if namespace is None else namespace.replace("/", "."),
            "inferred": False,
        }

    def changes(self, node: int) -> list[int]:  # noqa: ARG002
        return [0]

    def seek(self, cursor: int) -> None:
        """It has no steps."""

    def find(self, node: int | str) -> int:
        find_node(self.graph, node)
        return 0

    def to_networkx(self) -> nx.MultiDiGraph:
        return self.graph.copy()


def _note(captured: StaticCapture) -> str:
    graph = captured.graph
    calls = sum(kind == "op" for _, kind in graph.nodes(data="kind"))
    return (
        f"Static graph of {captured.made_by}: {plural(calls, 'call')}, the same whatever "
        "goes in. It holds no gradients."
    )


def _code(captured: StaticCapture, node: int) -> str | None:
    """The line of the program that a node is: "relu = aten.relu.default(conv2d)"."""
    data = captured.drawn.nodes[node]
    called = data.get("called")
    return None if called is None else f"{data['fx_name']} = {called}"
