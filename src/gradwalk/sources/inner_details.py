"""The panel's details of a node inside another: a call, or a tensor that calls take."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_pass import RecordedPass
from ..graph.adjacency import predecessors, successors
from ..panel.blank import blank_details
from ..panel.details import line_model
from ..panel.neighbours import MOST_LISTED, consumer_model, input_model, outputs_of
from ..schema.details import ConsumerModel, DetailsModel, ValueModel
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
    """Describe a call or tensor inside another node, at the cursor of a pass if there is one."""
    graph = opening.captured.drawn
    data = graph.nodes[node]
    outer = place.inside.node
    is_call = data["kind"] == "call"
    about = place.inner.about
    if is_call:
        about = f"A call of {data['op']} inside of node {outer}. {about}"
    value, note = _value(opening, place, recorded, summarised, is_call=is_call)
    outputs, output_count = outputs_of(graph, node)
    inputs = [input_model(graph, *each) for each in _operands(graph, node)]
    users = _users(graph, node)
    namespace = data["namespace"]
    return {
        **blank_details(graph, node, about, note or "Nothing flows here."),
        "forward": f"{data['fx_name']} = {data['called']}" if data.get("called") else None,
        "requires_grad": None,
        "is_leaf": None,
        "outputs": outputs,
        "output_count": output_count,
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


def _operands(graph: nx.MultiDiGraph, node: int) -> list[tuple[int, str | None, int, int]]:
    """(operand, argument, what gives it, which of its tensors) of a call, in order."""
    found = [
        (edge["output_nr"], edge["argument"], source, edge["arg_nr"])
        for source, edge in _edges(predecessors(graph)[node], "gradient")
    ]
    if graph.nodes[node]["kind"] == "call":
        found += [
            (edge["arg_nr"], edge["argument"], target, edge["output_nr"])
            for target, edge in _edges(successors(graph)[node], "constant")
        ]
    return sorted(found, key=operator.itemgetter(0))


def _users(graph: nx.MultiDiGraph, node: int) -> list[ConsumerModel]:
    """The calls that take a node's result, and the inputs whose gradient it is."""
    inside = graph.nodes[node]["inside"]
    calls = [
        (target, edge["output_nr"], edge["argument"])
        for target, edge in _edges(successors(graph)[node], "gradient")
    ]
    calls += [
        (source, edge["arg_nr"], edge["argument"])
        for source, edge in _edges(predecessors(graph)[node], "constant")
    ]
    of_node = _edges(successors(graph)[inside], "gradient")
    calls += [(target, 0, None) for target, edge in of_node if edge.get("via") == node]
    return [consumer_model(graph, *each) for each in calls]


def _edges(
    beside: Mapping[int, Mapping[int, dict[str, Any]]], kind: str
) -> Iterator[tuple[int, Any]]:
    for other, between in beside.items():
        for edge in between.values():
            if edge["kind"] == kind:
                yield other, edge
