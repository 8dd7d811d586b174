"""The panel's details of a node inside another: a call, or a tensor that calls take."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_pass import RecordedPass
from ..graph.adjacency import predecessors, successors
from ..graph.labels import label
from ..panel.blank import blank_details
from ..panel.extra_details import MOST_LISTED, line_model
from ..schema.details import ConsumerModel, DetailsModel, InputModel, ValueModel
from ..torch_api.summary import Summarise
from .open_nodes import Opening, Place

if TYPE_CHECKING:
    import networkx as nx


def inside_details(
    opening: Opening,
    node: int,
    place: Place,
    recorded: RecordedPass | None,
    summarised: Summarise,
) -> DetailsModel:
    """Describe a node inside another.

    Args:
        opening: The graph with its open nodes.
        node: The id of the node.
        place: The call or tensor.
        recorded: The shown pass and its cursor; None before the first pass.
        summarised: Summarises tensors.

    Returns:
        The contents of the panel.
    """
    graph = opening.captured.drawn
    data = graph.nodes[node]
    outer = place.inside.node
    is_call = data["kind"] == "call"
    about = place.inner.about
    if is_call:
        about = f"A call of {data['op']} inside of node {outer}. {about}"
    value, note = _value(opening, place, recorded, summarised, is_call=is_call)
    inputs = _inputs(graph, node)
    users = _users(graph, node)
    namespace = data["namespace"]
    return {
        **blank_details(graph, node, about, note or "Nothing flows here."),
        "forward": f"{data['fx_name']} = {data['called']}" if data.get("called") else None,
        "requires_grad": None,
        "is_leaf": None,
        "outputs": [
            {
                "output_nr": each["output_nr"],
                "name": each["name"],
                "shape": None if each["shape"] is None else list(each["shape"]),
                "dtype": each["dtype"],
                "device": each["device"],
                "is_root": False,
            }
            for each in data["outputs"][:MOST_LISTED]
        ],
        "output_count": len(data["outputs"]),
        "inputs": inputs[:MOST_LISTED],
        "input_count": len(inputs),
        "consumers": users[:MOST_LISTED],
        "consumer_count": len(users),
        "value": value,
        "value_note": note if value is None else None,
        "state": "waiting" if recorded is None else recorded.state(outer),
        "source": line_model(place.inner.line),
        "module": None if not namespace else namespace.replace("/", "."),
    }


def _value(
    opening: Opening,
    place: Place,
    recorded: RecordedPass | None,
    summarised: Summarise,
    *,
    is_call: bool,
) -> tuple[ValueModel | None, str | None]:
    """The result of a call or the value of a tensor, or a sentence why it is unknown."""
    if recorded is None:
        return None, "No backward pass through this graph has been seen yet." if is_call else None
    if recorded.state(place.inside.node) not in {"running", "done"}:
        return None, "At this step of backward this node has not run." if is_call else None
    numbers = opening.numbers(place.inside.node, recorded)
    if isinstance(numbers, str):
        return None, numbers if is_call else None
    given = numbers.given.get(place.inner, [])[: place.inner.own]
    parts = [each for each in given if each is not None]
    if len(parts) != 1 and is_call:
        return None, f"This call gave {len(parts)} tensors: they are at the calls that take them."
    if len(parts) != 1:
        return None, None
    kept: KeptGradient = parts[0]
    return {**kept.summarise(summarised), "origin": numbers.note}, None


def _operands(graph: nx.MultiDiGraph, node: int) -> Sequence[tuple[int, int, str | None, int]]:
    """(operand, what gives it, argument, which of its tensors) of a call, in order."""
    found = [
        (edge["output_nr"], source, edge["argument"], edge["input_nr"])
        for source, edge in _edges(predecessors(graph)[node])
        if edge["kind"] == "gradient"
    ]
    if graph.nodes[node]["kind"] == "call":
        found += [
            (edge["input_nr"], target, edge["argument"], edge["output_nr"])
            for target, edge in _edges(successors(graph)[node])
            if edge["kind"] == "constant"
        ]
    return sorted(found, key=operator.itemgetter(0))


def _inputs(graph: nx.MultiDiGraph, node: int) -> list[InputModel]:
    found: list[InputModel] = []
    for place, made, argument, part in _operands(graph, node):
        outputs = graph.nodes[made]["outputs"]
        shape = outputs[part]["shape"] if part < len(outputs) else None
        found.append(
            {
                "input_nr": place,
                "argument": argument,
                "node": made,
                "output_nr": part,
                "label": label(graph.nodes[made]),
                "shape": None if shape is None else list(shape),
            }
        )
    return found


def _users(graph: nx.MultiDiGraph, node: int) -> list[ConsumerModel]:
    """The calls that take a node's result, and the inputs whose gradient it is."""
    inside = graph.nodes[node]["inside"]
    return [
        *(
            _user(graph, target, edge["output_nr"], edge)
            for target, edge in _edges(successors(graph)[node])
            if edge["kind"] == "gradient"
        ),
        *(
            _user(graph, source, edge["input_nr"], edge)
            for source, edge in _edges(predecessors(graph)[node])
            if edge["kind"] == "constant"
        ),
        *(
            _user(graph, target, 0, {"argument": None})
            for target, edge in _edges(successors(graph)[inside])
            if edge.get("via") == node
        ),
    ]


def _edges(beside: Mapping[int, Mapping[int, dict[str, Any]]]) -> Iterator[tuple[int, Any]]:
    for other, between in beside.items():
        for edge in between.values():
            yield other, edge


def _user(graph: nx.MultiDiGraph, user: int, place: int, edge: Mapping[str, Any]) -> ConsumerModel:
    argument = edge["argument"]
    return {
        "node": user,
        "input_nr": place,
        "argument": None if argument is None else str(argument),
        "output_nr": 0,
        "label": label(graph.nodes[user]),
    }
