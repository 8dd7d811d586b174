"""The picture of a failing call: the graph of its inputs, and a node for the call."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import torch

from ...graph.capture import capture_nodes
from ...graph.names import Names
from ...graph.outputs import read_outputs
from ...schema.backward import RunModel, TransportModel
from ...schema.details import DetailsModel, SourceModel
from ...schema.graph import EdgeModel, GraphModel, NodeModel, RootModel
from ...sources.live_graph import LiveGraph
from ...torch_api.modes import unseen
from ...tracing.annotate import annotate
from ...tracing.failed_call import FailedCall
from ...widget.graph_widget import GraphWidget

_BLOCKED = "The forward pass did not reach a loss, so backward cannot run."


class FailedGraph(LiveGraph):
    """The graph of the inputs of a call, with a node for the call."""

    runs_backward = False

    def __init__(self, captured: Any, names: Names, failed: FailedCall, text: str) -> None:
        super().__init__(captured, names)
        self._failed, self._text = failed, text

    @functools.cached_property
    def model(self) -> GraphModel:
        """The drawn graph. The call has no value and no shape, and its inputs have both."""
        model, failed = super().model, self._failed
        inputs = [each.name or f"input {i}" for i, each in enumerate(failed.inputs)]
        first, *others = model["nodes"]
        call: NodeModel = {
            **first,
            "op": failed.call or "call",
            "label": failed.call or "call",
            "shape": None,
            "value": None,
            "no_grad_inputs": [
                {"arg_nr": i, "argument": f"{inputs[i]} {each.shape}"}
                for i, each in enumerate(failed.inputs)
                if not each.requires_grad
            ],
        }
        edges: list[EdgeModel] = [
            {**edge, "argument": inputs[edge["arg_nr"]]}
            if edge["source"] == 0 and edge["arg_nr"] is not None
            else edge
            for edge in model["edges"]
        ]
        roots: list[RootModel] = [{"node": 0, "output_nr": 0, "name": "failed"}]
        return {**model, "nodes": [call, *others], "edges": edges, "roots": roots}

    @property
    def run(self) -> RunModel:
        """No gradient; it marks the call."""
        return {
            "run": 0,
            "ended": "stopped",
            "seeds": [],
            "edges": [],
            "values": [],
            "norms": [],
            "arrived": [],
            "grads": [],
            "marks": [{"node": 0, "kind": "error", "note": self._text}],
        }

    def transport(self) -> TransportModel:
        """Say why backward cannot run."""
        return {"owned": False, "note": None, "blocked": _BLOCKED}

    def reopened(self) -> TransportModel:
        """Say the same in a file."""
        return self.transport()

    def backward(self, **_: Any) -> NoReturn:
        """Refuse.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(_BLOCKED)

    def findings(self, *_: Any, **__: Any) -> list[Any]:
        """Return none: the forward pass did not end."""
        return []

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:
        """Return the details of a node; of the call, the failure."""
        found = super().details(node, cursor)
        if node:
            return found
        line = self._failed.line
        source = line and {name: getattr(line, name) for name in SourceModel.__annotations__}
        return {**found, "about": self._text, "source": source}  # type: ignore[typeddict-item]


def widget_of(failed: FailedCall, names: Names, text: str) -> GraphWidget:
    """Return the picture of a failing call."""
    with unseen(), torch.enable_grad():
        called = type(failed.call or "call", (_FailedFunction,), {})
        output = called.apply(*(each._tensor for each in failed.inputs))  # type: ignore[attr-defined]
        captured = capture_nodes(read_outputs((output,), "last_failure"), names)
        subject = FailedGraph(annotate(captured, names, infer=True), names, failed, text)
    return GraphWidget._of(subject, direction=subject.direction, constants=True)


class _FailedFunction(torch.autograd.Function):
    """A node in place of the one that the call would have made."""

    @staticmethod
    def forward(_: Any, *__: torch.Tensor) -> torch.Tensor:
        return torch.empty(0)

    @staticmethod
    def backward(_: Any, *__: torch.Tensor) -> NoReturn:
        raise RuntimeError("The forward pass failed here.")
