"""Details of a node that the graph alone gives. Files are read with it, so it needs no torch."""

from __future__ import annotations

from typing import Any, cast

from ..lazily import nx
from ..schema.details import DetailsModel
from ..schema.validate import fill_in


def blank_details(graph: nx.MultiDiGraph, node: int, about: str, missing: str) -> DetailsModel:
    """Fill in the details that the graph alone knows; the others get their defaults."""
    data = graph.nodes[node]
    same = ("kind", "op", "name", "dtype", "device", "requires_grad", "is_leaf")
    known: dict[str, Any] = {
        "id": node,
        **{name: data[name] for name in same},
        "about": about,
        "shape": None if data["shape"] is None else list(data["shape"]),
        "output_count": 0,
        "saved_count": 0,
        "input_count": 0,
        "consumer_count": graph.in_degree(node),
        "grad_note": {"grad": missing, "grad_output": missing, "grad_input": missing},
        "state": "waiting",
        "contribution_count": 0,
        "operation_count": 0,
        "inferred": data.get("inferred", False),
    }
    fill_in(known, DetailsModel)
    return cast(DetailsModel, known)
