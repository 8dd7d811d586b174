"""A graph as it travels: what nodes have in common once, and small columns for the rest."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import accumulate

from ..wire import (
    EdgeForm,
    EdgeKind,
    EdgeModel,
    GraphModel,
    NodeForm,
    NodeModel,
    PackedEdges,
    PackedGraph,
    PackedNodes,
)
from .column import differences, pack_column, unpack_column


def pack_graph(graph: GraphModel) -> PackedGraph:
    """Pack the wire model of a graph.

    Args:
        graph: What `gradwalk.subject.model.graph_model` gave; ``nodes[i]`` has id ``i``.

    Returns:
        The same as plain JSON values of far fewer bytes; `unpack_graph` is the inverse.
    """
    texts: dict[str | None, int] = {None: 0}
    node_forms, nodes = _pack_nodes(graph["nodes"], texts)
    edge_forms, edges = _pack_edges(graph["edges"])
    return {
        "v": graph["v"],
        "static": graph["static"],
        "modules": graph["modules"],
        "texts": list(texts),
        "node_forms": node_forms,
        "edge_forms": edge_forms,
        "nodes": nodes,
        "edges": edges,
        "roots": graph["roots"],
    }


def unpack_graph(packed: PackedGraph) -> GraphModel:
    """The wire model of a packed graph: the inverse of `pack_graph`.

    The browser's is in ``js/packing/graph.ts``, and there a damaged one is a whole sentence.
    """
    return {
        "v": packed["v"],
        "static": packed["static"],
        "modules": packed["modules"],
        "nodes": _unpack_nodes(packed),
        "edges": _unpack_edges(packed),
        "roots": packed["roots"],
    }


def _pack_nodes(
    nodes: Iterable[NodeModel], texts: dict[str | None, int]
) -> tuple[list[NodeForm], PackedNodes]:
    forms: dict[Hashable, int] = {}
    node_forms: list[NodeForm] = []
    form, name, label, namespace, value = [], [], [], [], []
    for node in nodes:
        shape = node["shape"]
        key = (
            node["kind"],
            node["op"],
            None if shape is None else tuple(shape),
            tuple((each["input_nr"], each["argument"]) for each in node["no_grad_inputs"]),
            node["inferred"],
        )
        place = forms.get(key)
        if place is None:
            place = forms[key] = len(forms)
            node_forms.append(
                {
                    "kind": node["kind"],
                    "op": node["op"],
                    "shape": shape,
                    "no_grad_inputs": node["no_grad_inputs"],
                    "inferred": node["inferred"],
                }
            )
        form.append(place)
        name.append(texts.setdefault(node["name"], len(texts)))
        written = node["label"]
        usual = node["name"] or node["value"] or node["op"]
        label.append(0 if written == usual else texts.setdefault(written, len(texts)))
        namespace.append(texts.setdefault(node["namespace"], len(texts)))
        value.append(texts.setdefault(node["value"], len(texts)))
    return node_forms, {
        "form": pack_column(form),
        "name": pack_column(name),
        "label": pack_column(label),
        "namespace": pack_column(namespace),
        "value": pack_column(value),
    }


def _unpack_nodes(packed: PackedGraph) -> list[NodeModel]:
    texts, columns = packed["texts"], packed["nodes"]
    forms = [packed["node_forms"][place] for place in unpack_column(columns["form"])]
    names = [texts[place] for place in unpack_column(columns["name"])]
    labels = [texts[place] for place in unpack_column(columns["label"])]
    namespaces = [texts[place] for place in unpack_column(columns["namespace"])]
    values = [texts[place] for place in unpack_column(columns["value"])]
    return [
        {
            "id": i,
            **form,
            "label": (name or value or form["op"]) if label is None else label,
            "name": name,
            "namespace": namespace,
            "value": value,
        }
        for i, (form, name, label, namespace, value) in enumerate(
            zip(forms, names, labels, namespaces, values, strict=True)
        )
    ]


def _pack_edges(edges: list[EdgeModel]) -> tuple[list[EdgeForm], PackedEdges]:
    forms: dict[tuple[str | None, int | None, int, EdgeKind], int] = {}
    form, targets = [], []
    following = 0  # one more than any target so far: breadth-first, most edges lead to it
    for edge in edges:
        key = edge["argument"], edge["input_nr"], edge["output_nr"], edge["kind"]
        form.append(forms.setdefault(key, len(forms)))
        target = edge["target"]
        targets.append(following - target)
        if target >= following:
            following = target + 1
    return [
        {"argument": argument, "input_nr": input_nr, "output_nr": output_nr, "kind": kind}
        for argument, input_nr, output_nr, kind in forms
    ], {
        "form": pack_column(form),
        "source": pack_column(differences(edge["source"] for edge in edges)),
        "target": pack_column(targets),
    }


def _unpack_edges(packed: PackedGraph) -> list[EdgeModel]:
    columns = packed["edges"]
    sources = accumulate(unpack_column(columns["source"]))
    back = unpack_column(columns["target"])
    edges: list[EdgeModel] = []
    following = 0
    for place, source, behind in zip(unpack_column(columns["form"]), sources, back, strict=True):
        target = following - behind
        following = max(following, target + 1)
        edges.append({"source": source, "target": target, **packed["edge_forms"][place]})
    return edges
