"""What the panel shows of a node of a static graph."""

from __future__ import annotations

from ..graph.summary import summarise
from ..program.about import about
from ..program.kinds import no_backward
from ..program.static_capture import StaticCapture
from ..wire import DetailsModel
from .blank import blank_details
from .details import consumers_of, inputs_of, outputs_of
from .extra_details import line_model


def static_details(captured: StaticCapture, node: int) -> DetailsModel:
    """Describe one node.

    Args:
        captured: The static graph.
        node: Which node of ``captured.drawn``.

    Returns:
        The contents of the panel: no gradients, and a sentence why.
    """
    held = captured.tensors_held.get(node)
    namespace = captured.drawn.nodes[node]["namespace"]
    consumers, consumer_count = consumers_of(captured.drawn, node)
    inputs, input_count = inputs_of(captured.drawn, node)
    outputs, output_count = outputs_of(captured.drawn, node)
    return {
        **blank_details(captured.drawn, node, about(captured, node), no_backward(captured.made_by)),
        "forward": _code(captured, node),
        "is_leaf": None,
        "outputs": outputs,
        "output_count": output_count,
        "inputs": inputs,
        "input_count": input_count,
        "consumers": consumers,
        "consumer_count": consumer_count,
        "value": None if held is None else summarise(held),
        "source": line_model(captured.source(node)),
        "module": None if namespace is None else namespace.replace("/", "."),
        "inferred": False,
    }


def _code(captured: StaticCapture, node: int) -> str | None:
    """The line of the program that a node is: "relu = aten.relu.default(conv2d)"."""
    data = captured.drawn.nodes[node]
    called = data.get("called")
    return None if called is None else f"{data['fx_name']} = {called}"
