"""The panel's details of a node without gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..schema.details import DetailsModel

if TYPE_CHECKING:
    import networkx as nx


def blank_details(graph: nx.MultiDiGraph, node: int, about: str, missing: str) -> DetailsModel:
    """Fill in the details that the graph alone knows; leave the others empty.

    Args:
        graph: The drawn graph.
        node: A node of it.
        about: A sentence that describes the node.
        missing: A sentence that explains why the gradient is missing.

    Returns:
        The contents of the panel.
    """
    data = graph.nodes[node]
    return {
        "id": node,
        "kind": data["kind"],
        "op": data["op"],
        "name": data["name"],
        "about": about,
        "forward": None,
        "shape": None if data["shape"] is None else list(data["shape"]),
        "dtype": data["dtype"],
        "device": data["device"],
        "requires_grad": data["requires_grad"],
        "is_leaf": data["is_leaf"],
        "outputs": [],
        "output_count": 0,
        "saved": [],
        "saved_count": 0,
        "inputs": [],
        "input_count": 0,
        "no_grad_inputs": [],
        "consumers": [],
        "consumer_count": graph.in_degree(node),
        "value": None,
        "value_note": None,
        "grad": None,
        "grad_output": None,
        "grad_input": None,
        "grad_note": {"grad": missing, "grad_output": missing, "grad_input": missing},
        "state": "waiting",
        "contributions": None,
        "contribution_count": 0,
        "formula": [],
        "chain": None,
        "source": None,
        "module": None,
        "call": None,
        "inplace": False,
        "inferred": data.get("inferred", False),
        "checkpoint": None,
        "constants": [],
        "cuts": [],
        "function": None,
        "operations": [],
        "operation_count": 0,
        "explained": None,
        "ranks": [],
        "failed": [],
    }
