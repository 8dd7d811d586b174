"""The panel's lists of a node's inputs, outputs and consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..graph.adjacency import predecessors
from ..graph.labels import label
from ..schema.details import ConsumerModel, InputModel, OutputModel
from .extra_details import MOST_LISTED

if TYPE_CHECKING:
    import networkx as nx


def outputs_of(graph: nx.MultiDiGraph, node_id: int) -> tuple[list[OutputModel], int]:
    """List the first outputs of a node, and count all of them."""
    roots = {nr for root, nr in graph.graph["roots"] if root == node_id}
    outputs = graph.nodes[node_id]["outputs"]
    return [
        {
            "output_nr": output["output_nr"],
            "name": output["name"],
            "shape": None if output["shape"] is None else list(output["shape"]),
            "dtype": output["dtype"],
            "device": output["device"],
            "is_root": output["output_nr"] in roots,
        }
        for output in outputs[:MOST_LISTED]
    ], len(outputs)


def inputs_of(graph: nx.MultiDiGraph, node_id: int) -> tuple[list[InputModel], int]:
    """List the first inputs of a node by argument, and count all of them."""
    edges = sorted(
        ((target, edge) for _, target, edge in graph.out_edges(node_id, data=True)),
        key=lambda each: each[1]["input_nr"],
    )
    found: list[InputModel] = []
    for target, edge in edges[:MOST_LISTED]:
        outputs = graph.nodes[target]["outputs"]
        shape = outputs[edge["output_nr"]]["shape"] if edge["output_nr"] < len(outputs) else None
        found.append(
            {
                "input_nr": edge["input_nr"],
                "argument": edge["argument"],
                "node": target,
                "output_nr": edge["output_nr"],
                "label": label(graph.nodes[target]),
                "shape": None if shape is None else list(shape),
            }
        )
    return found, len(edges)


def consumers_of(graph: nx.MultiDiGraph, node_id: int) -> tuple[list[ConsumerModel], int]:
    """List the first consumers of a node's outputs, and count all of them."""
    found = sorted(
        (source, edge["input_nr"], key)
        for source, edges in predecessors(graph)[node_id].items()
        for key, edge in edges.items()
    )
    listed = [(source, graph.edges[source, node_id, key]) for source, _, key in found[:MOST_LISTED]]
    return [
        {
            "node": source,
            "input_nr": edge["input_nr"],
            "argument": edge["argument"],
            "output_nr": edge["output_nr"],
            "label": label(graph.nodes[source]),
        }
        for source, edge in listed
    ], len(found)
