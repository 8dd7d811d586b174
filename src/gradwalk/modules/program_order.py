"""The operations of a captured graph in the order in which the program ran them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..graph.capture import Capture


@dataclass(frozen=True)
class Program:
    """The operations behind some outputs, at places numbered in the order in which they ran.

    Attributes:
        nodes: The graph node at each place.
        ops: Its class name.
        shapes: The shape of its first output.
        operands: The places of the operations whose outputs it takes.
        users: The places of the operations that take its outputs, ascending.
        constants: Whether it has an operand that needs no grad.
        parameters: The parameters that it takes: of each, its dotted names.
    """

    nodes: list[int]
    ops: list[str]
    shapes: list[tuple[int, ...] | None]
    operands: list[list[int]]
    users: list[list[int]]
    constants: list[bool]
    parameters: list[list[list[str]]]


def read_program(captured: Capture, parameters: Mapping[int, list[str]]) -> Program:
    """Put the operations of a captured graph in their order.

    Args:
        captured: The graph.
        parameters: The dotted names of each leaf that is a parameter.

    Returns:
        Its operations. torch numbers them as they are made, so the order is the program's own; of
        graphs made by several threads it is that of each thread.
    """
    data, following = captured.attributes, captured.successors
    nodes = captured.operations
    places = {node: place for place, node in enumerate(nodes)}
    operands = [[places[t] for t in following[node] if t in places] for node in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for place, taken in enumerate(operands):
        for operand in taken:
            users[operand].append(place)
    return Program(
        nodes=nodes,
        ops=[data[node]["op"] for node in nodes],
        shapes=[data[node]["shape"] for node in nodes],
        operands=operands,
        users=users,
        constants=[bool(data[node]["no_grad_inputs"]) for node in nodes],
        parameters=[[parameters[t] for t in following[node] if t in parameters] for node in nodes],
    )
