"""What the panel shows of a node inside of compiled code: a call, or a saved tensor."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..backward.kept import Kept
from ..backward.recorded_pass import RecordedPass
from ..graph.adjacency import predecessors, successors
from ..graph.compiled import adds_gradients, is_recomputed
from ..graph.summary import Summarise
from ..graph.words import label
from ..program.inside import called_of_saved
from ..program.stack_trace import source_line
from ..wire import ConsumerModel, DetailsModel, InputModel, ValueModel
from .blank import blank_details
from .extra_details import MOST_LISTED, line_model
from .opening import Opening, Place

if TYPE_CHECKING:
    import networkx as nx

BEFORE_FUSION = "It is a call of the backward program as it was before the backend fused it."
_RECOMPUTED = (
    "Recomputed: a call of the forward pass that runs in backward, so that what it gives need not "
    "be saved. No gradient flows through it."
)
_FORGOTTEN = (
    "Its shape, module and line are not known: torch forgot them when it packed the program for "
    "its compile cache, after the first backward. A widget that is made before that keeps them."
)
_ON_SAVED = "It works on what the forward pass saved alone: no gradient flows through it."


def inside_details(
    opening: Opening,
    node: int,
    place: Place,
    recorded: RecordedPass | None,
    summarised: Summarise,
) -> DetailsModel:
    """Describe a node that is inside of a compiled one.

    Args:
        opening: The graph with what is open of it.
        node: The id of the node.
        place: What it is.
        recorded: The pass that is shown, and where its cursor stands; None before the first.
        summarised: Summarises tensors.

    Returns:
        The contents of the panel.
    """
    graph = opening.captured.drawn
    data = graph.nodes[node]
    compiled = place.inside.node
    is_call = data["kind"] == "call"
    about = _about_call(opening, node, place) if is_call else _about_saved(graph, node, place)
    value, note = _value(opening, place, recorded, summarised) if is_call else (None, None)
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
        "state": "waiting" if recorded is None else recorded.state(compiled),
        "source": line_model(source_line(place.fx)),
        "module": None if not namespace else namespace.replace("/", "."),
    }


def _about_call(opening: Opening, node: int, place: Place) -> str:
    data = opening.captured.drawn.nodes[node]
    of = f"A call of {data['op']} inside of node {place.inside.node}. {BEFORE_FUSION}"
    if not place.fx.meta:
        of = f"{of} {_FORGOTTEN}"
    if is_recomputed(place.fx):
        return f"{of} {_RECOMPUTED}"
    if place.fx not in place.inside.carrying:
        return f"{of} {_ON_SAVED}"
    if adds_gradients(place.fx):
        return f"{of} It adds up the gradients of a tensor that is used several times."
    return of


def _about_saved(graph: nx.MultiDiGraph, node: int, place: Place) -> str:
    name = graph.nodes[node]["name"]
    fx = str(place.fx.target)
    if name is not None:
        return f"{name}, as the forward pass saved it. The backward program calls it {fx}."
    if fx.startswith("primals_"):
        return (
            f"The {called_of_saved(place.fx)} of the compiled code, as the forward pass saved it. "
            f"The backward program calls it {fx}."
        )
    return f"What {fx} gave in the forward pass, which saved it for this backward program."


def _value(
    opening: Opening, place: Place, recorded: RecordedPass | None, summarised: Summarise
) -> tuple[ValueModel | None, str | None]:
    """What a call gave, or a sentence why that is not known."""
    if recorded is None:
        return None, "No backward pass through this graph has been seen yet."
    if recorded.state(place.inside.node) not in {"running", "done"}:
        return None, "At this step of backward the compiled code has not run."
    numbers = opening.numbers(place.inside.node, recorded)
    if isinstance(numbers, str):
        return None, numbers
    parts = [each for each in numbers.given.get(place.fx, []) if each is not None]
    if len(parts) != 1:
        return None, f"This call gave {len(parts)} tensors: they are at the calls that take them."
    kept: Kept = parts[0]
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
    """The calls that take what a node gives, and whose gradient it is."""
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
