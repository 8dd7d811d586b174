"""Find the common and the differing nodes of several captured graphs, also of compiled ones."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Literal

from ..english import plural, with_counts
from ..graph.adjacency import attributes
from ..graph.labels import label as node_label
from ..lazily import nx
from ..matching.alignment import uncrossed
from ..matching.match import Counterparts, match
from ..plugins import Hook
from ..schema.comparison import CompiledModel, CompiledOperationModel
from ..sources.graph_source import GraphSource

_How = Literal["one", "several", "dropped", "unknown"]


def compiled_model(
    compiled: Mapping[str, Any],
    plain: GraphSource,
    opened: GraphSource,
    places: tuple[Mapping[int, int], Mapping[int, int]],
) -> CompiledModel:
    """Describe the operations of a program beside its compiled version."""
    here, there = places
    calls = opened.drawn.nodes
    operations: list[CompiledOperationModel] = []
    for each in compiled["operations"]:
        data = plain.drawn.nodes[each["node"]]
        module = (plain.model["nodes"][each["node"]]["namespace"] or "").replace("/", ".")
        operation: CompiledOperationModel = {
            "place": here[each["node"]],
            "how": _how(each),
            "calls": [there[call] for call in each["calls"]],
            "again": [there[call] for call in each["again"]],
            "label": node_label(data),
            "where": ", ".join(filter(None, (module, data.get("source")))),
            "sentence": _counterpart_words(each, calls),
        }
        operations.append(operation)
    return {
        "sentence": _summary(compiled, operations),
        "operations": operations,
        "adding": [there[call] for call in compiled["adding"]],
        "others": [there[call] for call in compiled["others"] if not calls[call].get("recomputed")],
    }


_HOW: dict[_How, str] = {
    "one": "as one call",
    "several": "as several calls",
    "dropped": "without any, the gradient goes straight on",
    "unknown": "without a counterpart that could be found",
}


def _how(each: Mapping[str, Any]) -> _How:
    if each["is_dropped"]:
        return "dropped"
    return ("unknown", "one", "several")[min(2, len(each["calls"]))]


def _counterpart_words(each: Mapping[str, Any], calls: Any) -> str:
    again = f"; runs forward again: {_names_of(each['again'], calls)}" if each["again"] else ""
    if each["is_dropped"]:
        return "no call: the gradient goes straight on"
    if not each["calls"]:
        return "no counterpart found"
    return f"{_names_of(each['calls'], calls)}{again}"


def _names_of(nodes: list[int], calls: Any) -> str:
    """The calls in words: "mm ×2, t, sum"."""
    names = (calls[node]["op"].removeprefix("aten.").partition(".")[0] for node in nodes)
    return ", ".join(with_counts(names))


def _summary(compiled: Mapping[str, Any], operations: list[CompiledOperationModel]) -> str:
    how = Counter[str](each["how"] for each in operations)
    parts = [f"{how[kind]:,} {words}" for kind, words in _HOW.items() if how[kind]]
    again = sum(len(each["again"]) for each in operations)
    total = plural(len(operations), "operation")
    sentences = [f"Inside {compiled['in']}: of {total} {', '.join(parts)}."] if parts else []
    if again:
        runs = plural(again, "call of the forward pass runs", "calls of the forward pass run")
        sentences.append(f"{runs} again in backward.")
    if adding := len(compiled["adding"]):
        adds = plural(adding, "call adds", "calls add")
        sentences.append(f"{adds} up gradients, which else the engine does between nodes.")
    sentences.append("This is the program before the backend fuses calls.")
    return " ".join(sentences)


Members = dict[str, int | None]  # label -> a node's number in that graph, or None

_FindCounterparts = Callable[
    ["nx.MultiDiGraph", "nx.MultiDiGraph", Mapping[int, int], Callable[[int], str | None]],
    Counterparts,
]
COUNTERPARTS: Hook[_FindCounterparts] = Hook()
"""Finds the calls in open nodes that replace the operations of another graph."""


def difference(
    graphs: Mapping[str, nx.MultiDiGraph],
    module_of: Callable[[str, int], str | None] = lambda *_: None,
) -> dict[str, Any]:
    """Compare labelled graphs with the first of them, the reference.

    Args:
        graphs: Label -> what `gradwalk.capture` gave; two or more.
        module_of: The module of a node of a graph, beyond what the graph says.

    Returns:
        A dict that ``json.dumps`` takes as it is:

        - ``labels``: The labels in the order given.
        - ``reference``: The first of them.
        - ``comparisons``: For each other label a dict of ``pairs``, a list of [node of the
          reference, the same node of the other graph], and ``only_left`` and ``only_right``, the
          nodes that only the reference and only the other graph has. All lists are ascending.
          Where one of the two has compiled code that is open, an operation of the other is paired
          with the first call that works on its gradient, and ``compiled`` has what became of it:
          ``operations``, a list of dicts of ``node`` (its number in that other graph), ``calls``,
          ``main`` (that first one), ``again`` (calls of its forward that run again) and
          ``is_dropped``; ``adding``, the calls that add up gradients; ``others``, those of which
          nothing is known; and ``in``, the label of the graph with the calls.
        - ``nodes`` and ``edges``: All graphs laid on top of each other, matched nodes as one,
          without cycles. ``nodes[i]`` has ``id`` i, ``kind``, ``op``, and the ``name`` and
          ``shape`` that it has in the first graph that has it (for a name: that names it), and
          ``nodes``, label -> its number in that graph, or None. The reference's nodes come first
          and keep their numbers. Nodes that the reference lacks are never matched with each other.
          An edge has ``source`` and ``target`` (ids of ``nodes``), ``arg_nr``, ``argument`` and
          ``output_nr`` as in `gradwalk.capture`, and ``labels``, the graphs that have it.
        - ``leaves``: The leaf table, a row for each leaf, with its ``name`` (or None) and
          ``graphs``, label -> a dict of ``node`` (its number there, or None), ``present`` (whether
          it is in that graph), ``requires_grad`` and ``is_leaf`` (None where it is not present,
          or in a static graph).
          Leaves of different graphs share a row if they are matched, or have the same name.

    Example::

        >>> import torch
        >>> from gradwalk import capture
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> w = torch.tensor([4.0], requires_grad=True)
        >>> names = {"x": x, "w": w}
        >>> every, cut = capture(w * x, names=names), capture(w * x.detach(), names=names)
        >>> found = difference({"all": every, "cut": cut})
        >>> found["comparisons"]["cut"]
        {'pairs': [[0, 0], [1, 1]], 'only_left': [2], 'only_right': []}
        >>> [(row["name"], row["graphs"]["cut"]["present"]) for row in found["leaves"]]
        [('w', True), ('x', False)]
    """
    reference, *others = graphs
    first = graphs[reference]
    united = nx.DiGraph()
    ids = {reference: {node: node for node in first}}  # label -> node -> id in the united graph
    _lay_on(united, first, ids[reference])
    comparisons = {}
    for label in others:
        comparisons[label], ids[label] = _compared(graphs, label, united, module_of)
        _lay_on(united, graphs[label], ids[label])
    members: list[Members] = [dict.fromkeys(graphs) for _ in united]
    for label, places in ids.items():
        for node, place in places.items():
            members[place][label] = node
    return {
        "labels": list(graphs),
        "reference": reference,
        "comparisons": comparisons,
        "nodes": [_node(graphs, place, of) for place, of in enumerate(members)],
        "edges": _edges(graphs, ids),
        "leaves": [_leaf(graphs, of) for of in _leaf_rows(graphs, members)],
    }


def _compared(
    graphs: Mapping[str, nx.MultiDiGraph],
    label: str,
    united: nx.DiGraph,
    module_of: Callable[[str, int], str | None],
) -> tuple[dict[str, Any], dict[int, int]]:
    """Compare a graph with the reference; also return node -> its place in the united graph."""
    reference = next(iter(graphs))
    first, graph = graphs[reference], graphs[label]
    found = match(first, graph).pairs
    compiled = _compiled(graphs, (reference, label), found, module_of)
    if compiled is not None:
        found |= _standing(compiled, is_left=compiled["in"] == label)
    # Two graphs that each match the reference may order its nodes in opposite ways.
    pairs = uncrossed(_producers(united), _producers(graph), found)
    new = count(len(united))
    there = {other: node for node, other in pairs.items()}
    comparison = {
        "pairs": [list(pair) for pair in sorted(pairs.items())],
        "only_left": sorted(set(first) - pairs.keys()),
        "only_right": sorted(set(graph) - there.keys()),
        **({} if compiled is None else {"compiled": compiled}),
    }
    return comparison, {node: there[node] if node in there else next(new) for node in graph}


def united_graph(
    graphs: Mapping[str, nx.MultiDiGraph], places: Mapping[str, Mapping[int, int]]
) -> nx.MultiDiGraph:
    """Return all graphs laid on each other; ``places``: label -> node -> its node in the result."""
    united = nx.MultiDiGraph()
    united.add_nodes_from(sorted({place for own in places.values() for place in own.values()}))
    for label, graph in graphs.items():
        place = places[label]
        for node, data in graph.nodes(data=True):
            found = united.nodes[place[node]]
            found.setdefault("labels", []).append(label)
            for name, value in data.items():
                found.setdefault(name, value)
        for source, target, data in graph.edges(data=True):
            ends = place[source], place[target]
            wanted = data["arg_nr"], data["output_nr"]
            known = united.get_edge_data(*ends, default={}).values()
            alike = (each for each in known if (each["arg_nr"], each["output_nr"]) == wanted)
            found = next(alike, None)
            if found is None:
                united.add_edge(*ends, **data, labels=[label])
            elif label not in found["labels"]:
                found["labels"].append(label)
    return united


def _compiled(
    graphs: Mapping[str, nx.MultiDiGraph],
    labels: tuple[str, str],
    pairs: Mapping[int, int],
    module_of: Callable[[str, int], str | None],
) -> dict[str, Any] | None:
    """Match the operations of one graph with the calls of the other."""
    opened = [label for label in labels if has_calls(graphs[label])]
    counterparts = COUNTERPARTS.first()
    if len(opened) != 1 or counterparts is None:
        return None
    plain = labels[opened[0] == labels[0]]
    own = pairs if plain == labels[0] else {there: here for here, there in pairs.items()}
    found = counterparts(graphs[plain], graphs[opened[0]], own, functools.partial(module_of, plain))
    return {
        "in": opened[0],
        "operations": [
            {
                "node": node,
                "calls": list(each.calls),
                "main": each.main,
                "again": list(each.again),
                "is_dropped": each.is_dropped,
            }
            for node, each in found.of.items()
        ],
        "adding": found.adding,
        "others": found.others,
    }


def _standing(compiled: Mapping[str, Any], *, is_left: bool) -> dict[int, int]:
    """Pairs of operations and the calls that replace them."""
    pairs = [
        (each["node"], each["main"]) for each in compiled["operations"] if each["main"] is not None
    ]
    return {a if is_left else b: b if is_left else a for a, b in pairs}


def has_calls(graph: nx.MultiDiGraph) -> bool:
    """Whether compiled code is open."""
    # The operations of a custom Function's backward have no such numbers.
    return any(data.get("seq_nr") is not None for data in attributes(graph).values())


def _lay_on(united: nx.DiGraph, graph: nx.MultiDiGraph, ids: Mapping[int, int]) -> None:
    united.add_nodes_from(ids.values())
    united.add_edges_from((ids[source], ids[target]) for source, target in graph.edges())


def _producers(graph: nx.DiGraph) -> dict[int, list[int]]:
    order = reversed(list(nx.topological_sort(graph)))
    return {node: list(graph.successors(node)) for node in order}


def _data(graphs: Mapping[str, nx.MultiDiGraph], members: Members) -> list[dict[str, Any]]:
    """A node's attributes in each graph that has it."""
    return [graphs[label].nodes[node] for label, node in members.items() if node is not None]


def _name(graphs: Mapping[str, nx.MultiDiGraph], members: Members) -> str | None:
    return next((data["name"] for data in _data(graphs, members) if data["name"]), None)


def _node(graphs: Mapping[str, nx.MultiDiGraph], place: int, members: Members) -> dict[str, Any]:
    data = _data(graphs, members)[0]
    return {
        "id": place,
        "kind": data["kind"],
        "op": data["op"],
        "name": _name(graphs, members),
        "shape": None if data["shape"] is None else list(data["shape"]),
        "nodes": members,
    }


def _edges(
    graphs: Mapping[str, nx.MultiDiGraph], ids: Mapping[str, Mapping[int, int]]
) -> list[dict[str, Any]]:
    edges: dict[tuple[int, int, int, int], dict[str, Any]] = {}
    for label, graph in graphs.items():
        for source, target, data in graph.edges(data=True):
            ends = {"source": ids[label][source], "target": ids[label][target]}
            edge = {**ends, **{key: data[key] for key in ("arg_nr", "argument", "output_nr")}}
            key = edge["source"], edge["target"], edge["arg_nr"], edge["output_nr"]
            edges.setdefault(key, {**edge, "labels": []})["labels"].append(label)
    return list(edges.values())


def _leaf_rows(graphs: Mapping[str, nx.MultiDiGraph], members: Sequence[Members]) -> list[Members]:
    """The leaves among some nodes; leaves of different graphs with one name share a row."""
    rows: list[Members] = []
    named: dict[str, Members] = {}
    for of in members:
        data = _data(graphs, of)[0]
        if not data["is_leaf"] or data.get("inside") is not None:  # what compiled code saved
            continue
        name = _name(graphs, of)
        row = named.get(name) if name else None
        if row is None or any(row[label] is not None and of[label] is not None for label in of):
            row = dict.fromkeys(graphs)
            rows.append(row)
            if name:
                named.setdefault(name, row)
        row.update({label: node for label, node in of.items() if node is not None})
    return rows


def _leaf(graphs: Mapping[str, nx.MultiDiGraph], members: Members) -> dict[str, Any]:
    row = {}
    for label, node in members.items():
        # A static graph has no tensors, so both are unknown.
        is_unknown = node is None or graphs[label].graph.get("static")
        data = {} if is_unknown else graphs[label].nodes[node]
        both = {name: data.get(name) for name in ("requires_grad", "is_leaf")}
        row[label] = {"node": node, "present": node is not None, **both}
    return {"name": _name(graphs, members), "graphs": row}
