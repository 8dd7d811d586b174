"""What the panel shows of a node of a static graph."""

from __future__ import annotations

from ..graph.summary import summarise
from ..panel.details import consumers_of, inputs_of, outputs_of
from ..panel.extra_details import line_model
from ..wire import DetailsModel
from .about import about
from .program import no_backward
from .static_capture import StaticCapture


def static_details(captured: StaticCapture, node: int) -> DetailsModel:
    """Describe one node.

    Args:
        captured: The static graph.
        node: Which node of ``captured.drawn``.

    Returns:
        The contents of the panel: no gradients, and a sentence why.
    """
    data = captured.drawn.nodes[node]
    held = captured.tensors_held.get(node)
    missing = no_backward(captured.made_by)
    namespace = data["namespace"]
    consumers, consumer_count = consumers_of(captured.drawn, node)
    return {
        "id": node,
        "kind": data["kind"],
        "op": data["op"],
        "name": data["name"],
        "about": about(captured, node),
        "forward": _code(captured, node),
        "shape": None if data["shape"] is None else list(data["shape"]),
        "dtype": data["dtype"],
        "device": data["device"],
        "requires_grad": data["requires_grad"],
        "is_leaf": None,
        "outputs": outputs_of(captured.drawn, node),
        "saved": [],
        "inputs": inputs_of(captured.drawn, node),
        "no_grad_inputs": [],
        "consumers": consumers,
        "consumer_count": consumer_count,
        "value": None if held is None else summarise(held),
        "grad": None,
        "grad_output": None,
        "grad_input": None,
        "grad_note": {"grad": missing, "grad_output": missing, "grad_input": missing},
        "state": "waiting",
        "contributions": None,
        "contribution_count": 0,
        "formula": [],
        "chain": None,
        "source": line_model(captured.source(node)),
        "module": None if namespace is None else namespace.replace("/", "."),
        "call": None,
        "inplace": False,
        "inferred": False,
        "constants": [],
        "cuts": [],
        "explained": None,
    }


def _code(captured: StaticCapture, node: int) -> str | None:
    """The line of the program that a node is: "relu = aten.relu.default(conv2d)"."""
    data = captured.drawn.nodes[node]
    called = data.get("called")
    return None if called is None else f"{data['fx_name']} = {called}"
