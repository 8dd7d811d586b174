"""Find the place in the graph that the user names by an edge, a tensor or a name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from ...graph.attributes import Place
from ...graph.names import nearest
from ...torch_api.nodes import gradient_edge
from .replay import Replay

_MOST_LISTED = 8
_NO_NAMES = (
    "None of its tensors has a name: names come from the variables where the graph or recording "
    "was made, or from names={'w': w} there."
)


def find_place(replay: Replay, given: Any, caller: str) -> Place:
    """Return the (node, output_nr) of a tensor or of a name.

    Args:
        replay: The graph.
        given: A tensor, a ``GradientEdge``, a name, or the id of a node, for its first output.
        caller: The parameter, for messages: "cut".

    Raises:
        TypeError: The argument has the wrong type.
        ValueError: It is not in the graph.
    """
    if isinstance(given, str):
        return _named(replay, given, caller)
    if isinstance(given, int) and not isinstance(given, bool):
        return _node(replay, given, caller), 0
    if isinstance(given, GradientEdge):
        node, nr = given.node, given.output_nr
    elif isinstance(given, torch.Tensor):
        if not given.requires_grad:
            raise ValueError(
                f"{caller} was given a tensor of shape {tuple(given.shape)} that does not require "
                "grad, so no gradient flows to it. Give a tensor of the graph, or its name."
            )
        node, nr = gradient_edge(given)
    else:
        raise TypeError(
            f"{caller} was given {given!r}, of type {type(given).__name__}. Give an edge as "
            "(consumer id, input_nr), with the ids of capture(), a tensor, or a tensor's name."
        )
    for i, each in enumerate(replay.captured.nodes):
        if each is node:
            return i, nr
    raise ValueError(
        f"{caller} was given a tensor that is not in this graph: no gradient of the outputs leads "
        f"to it. Give one that is, or its name. {_some_names(replay)}"
    )


def find_edge(replay: Replay, given: tuple[Any, Any], caller: str) -> tuple[Place, Place]:
    """Return an edge, and the place whose gradient flows through it.

    Args:
        replay: The graph.
        given: (consumer id, input_nr).
        caller: The parameter, for messages.

    Raises:
        TypeError: The edge is not two integers.
        ValueError: The graph does not have this edge.
    """
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in given):
        raise TypeError(
            f"{caller} was given the edge {given!r}. Give it as (consumer id, input_nr), two whole "
            "numbers, with the ids of capture()."
        )
    consumer, input_nr = _node(replay, given[0], caller), given[1]
    following = replay.following[consumer]
    there = [nr for nr, place in enumerate(following) if place is not None]
    if not 0 <= input_nr < len(following):
        found = ", ".join(f"({consumer}, {nr})" for nr in there) or "none at all: it is a leaf"
        raise ValueError(
            f"{caller} was given the edge ({consumer}, {input_nr}), but "
            f"{replay.named(consumer)} has no such input. Its edges are {found}."
        )
    place = following[input_nr]
    if place is None:
        raise ValueError(
            f"{caller} was given the edge ({consumer}, {input_nr}), but that input of "
            f"{replay.named(consumer)} needs no gradient, so none flows there. The inputs with a "
            f"gradient are {', '.join(map(str, there)) or 'none'}."
        )
    return (consumer, input_nr), place


def called(replay: Replay, node: int) -> str:
    """Return the name of a node, or its operation and number."""
    data = replay.captured.attributes[node]
    return str(data["name"] or f"{data['op']} {node}")


def place_name(replay: Replay, place: Place) -> str | None:
    """Return the name of a tensor; None if it has no name."""
    outputs = replay.captured.attributes[place[0]]["outputs"]
    name = outputs[place[1]]["name"] if place[1] < len(outputs) else None
    return None if name is None else str(name)


def _node(replay: Replay, given: int, caller: str) -> int:
    total = len(replay.captured.nodes)
    if not 0 <= given < total:
        raise ValueError(
            f"{caller} was given the node {given}, but this graph has nodes 0 to {total - 1} only, "
            "as capture() numbers them."
        )
    return given


def _names(replay: Replay) -> Iterator[tuple[str, Place]]:
    for i, data in replay.captured.graph.nodes(data=True):
        for output in data["outputs"]:
            if output["name"]:
                yield str(output["name"]), (i, output["output_nr"])


def _named(replay: Replay, name: str, caller: str) -> Place:
    found = [place for each, place in _names(replay) if each == name]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(str(node) for node, _ in found[:_MOST_LISTED])
        raise ValueError(
            f"{caller} was given the name {name!r}, which {len(found)} tensors have, of nodes "
            f"{listed}. Give the tensor itself, or an edge as (consumer id, input_nr)."
        )
    hint = nearest(name, (each for each, _ in _names(replay)))
    hint = hint or _some_names(replay)
    raise ValueError(
        f"{caller} was given {name!r}, but no tensor of this graph has that name. {hint}"
    )


def _some_names(replay: Replay) -> str:
    names = list(dict.fromkeys(name for name, _ in _names(replay)))
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    listed = ", ".join(map(repr, names[:_MOST_LISTED]))
    return f"The names are {listed}{more}." if names else _NO_NAMES
