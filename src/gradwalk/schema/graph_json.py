"""Convert a captured graph to JSON values in networkx's node-link format, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..lazily import nx
from .graph import DtypesModel, EdgeModel, GraphModel, NodeModel

_OF_CALLS = ("inside", "recomputed")

DRAWN_NODE = ("id", "kind", "op", "name", "shape", "no_grad_inputs", *_OF_CALLS)
"""The fields of `NodeModel` that are also attributes of the captured graph."""

DRAWN_EDGE = tuple(EdgeModel.__annotations__)


def drawing_order(nodes: Iterable[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], int]:
    """Return the sort key of edges: autograd nodes, inside compiled code, without gradient."""
    calls = {node["id"] for node in nodes if node["kind"] == "call"}

    def order(edge: Mapping[str, Any]) -> int:
        if edge["kind"] != "gradient":
            return 2
        return int(edge["source"] in calls or edge["target"] in calls)

    return order


def graph_to_data(graph: nx.MultiDiGraph) -> dict[str, Any]:
    """Convert a captured graph as ``networkx.node_link_data`` does, with JSON values only."""
    return {
        "directed": True,
        "multigraph": True,
        "graph": _plain(graph.graph),
        "nodes": [{**_plain(data), "id": node} for node, data in graph.nodes(data=True)],
        "edges": [
            {**_plain(data), "source": source, "target": target, "key": key}
            for source, target, key, data in graph.edges(data=True, keys=True)
        ],
    }


def graph_from_data(data: dict[str, Any]) -> nx.MultiDiGraph:
    """Undo `graph_to_data`; shapes and roots are tuples again, other lists stay lists."""
    graph = nx.MultiDiGraph()
    graph.graph.update(data["graph"])
    graph.graph["roots"] = [tuple(root) for root in data["graph"]["roots"]]
    for node in data["nodes"]:
        attributes = {key: value for key, value in node.items() if key != "id"}
        attributes["shape"] = _shape(attributes["shape"])
        attributes["outputs"] = [
            {**output, "shape": _shape(output["shape"])} for output in attributes["outputs"]
        ]
        graph.add_node(node["id"])
        graph.nodes[node["id"]].update(attributes)  # not as keywords: a name may collide
    for edge in data["edges"]:
        attributes = {k: v for k, v in edge.items() if k not in {"source", "target", "key"}}
        graph.add_edges_from([(edge["source"], edge["target"], edge["key"], attributes)])
    return graph


def beyond_drawn(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of `graph_to_data` without the fields that `GraphModel` has, too."""
    edges = [{"kind": "gradient", **edge} for edge in data["edges"]]
    edges.sort(key=drawing_order(data["nodes"]))
    return {
        "graph": data["graph"],
        "nodes": [_without(node, DRAWN_NODE) for node in data["nodes"]],
        "edges": [_without(edge, DRAWN_EDGE) for edge in edges],
    }


def with_drawn(drawn: GraphModel, beyond: Mapping[str, Any]) -> dict[str, Any]:
    """Undo `beyond_drawn`, for `graph_from_data`."""
    nodes = zip(drawn["nodes"], beyond["nodes"], strict=True)
    edges = zip(drawn["edges"], beyond["edges"], strict=True)
    return {
        "graph": beyond["graph"],
        "nodes": [{**_attributes(node), **more} for node, more in nodes],
        "edges": [
            {**(edge if edge["via"] is not None else _without(edge, ("via",))), **more}
            for edge, more in edges
        ],
    }


def _attributes(node: NodeModel) -> dict[str, Any]:
    drawn = {name: value for name, value in node.items() if name in DRAWN_NODE}
    return drawn if node["inside"] is not None else _without(drawn, _OF_CALLS)


def _without(record: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


def _shape(shape: list[int] | None) -> tuple[int, ...] | None:
    return None if shape is None else tuple(shape)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def dtypes_model(graph: nx.MultiDiGraph) -> DtypesModel:
    """Return the dtype of every node, each name once."""
    names: dict[str, int] = {}
    nodes = [
        -1 if dtype is None else names.setdefault(dtype, len(names))
        for _, dtype in graph.nodes(data="dtype")
    ]
    return {"names": list(names), "nodes": nodes}
