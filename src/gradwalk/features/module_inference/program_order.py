"""The operations of a captured graph in the order in which the program ran them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...graph.capture import Capture

_RESHAPES = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")


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
        reshapings: Place of what computes a linear layer -> the places of what reshapes its input
            to rows, and its result back.
    """

    nodes: list[int]
    ops: list[str]
    shapes: list[tuple[int, ...] | None]
    operands: list[list[int]]
    users: list[list[int]]
    constants: list[bool]
    parameters: list[list[list[str]]]
    reshapings: dict[int, list[int]]


def read_program(captured: Capture, parameters: Mapping[int, list[str]]) -> Program:
    """Put the operations of a captured graph in their order.

    Args:
        captured: The graph.
        parameters: The dotted names of each leaf that is a parameter.

    Returns:
        Its operations. torch numbers them as they are made, so this is the program's order; with
        several threads, it is the order within each thread.
    """
    data, following = captured.attributes, captured.successors
    nodes = captured.operations
    places = {node: place for place, node in enumerate(nodes)}
    operands = [[places[t] for t in following[node] if t in places] for node in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for place, taken in enumerate(operands):
        for operand in taken:
            users[operand].append(place)
    program = Program(
        nodes=nodes,
        ops=[data[node]["op"] for node in nodes],
        shapes=[data[node]["shape"] for node in nodes],
        operands=operands,
        users=users,
        constants=[bool(data[node]["no_grad_inputs"]) for node in nodes],
        parameters=[[parameters[t] for t in following[node] if t in parameters] for node in nodes],
        reshapings={},
    )
    for place, op in enumerate(program.ops):
        if op.startswith(("Addmm", "Mm")):
            program.reshapings[place] = _reshapings(program, place)
    return program


def _reshapings(program: Program, place: int) -> list[int]:
    """The operations with which a linear layer reshapes its input to rows, and its result back."""
    ops, shapes, users = program.ops, program.shapes, program.users
    found: list[int] = []
    rows, given = shapes[place], None
    for operand in program.operands[place]:
        before = program.operands[operand]
        if ops[operand] not in _RESHAPES or users[operand] != [place] or not before:
            continue
        shape = shapes[before[0]]
        if shape is not None and len(shape) > 2:
            given = shape
            found.append(operand)
            if ops[before[0]] == "CloneBackward0" and users[before[0]] == [operand]:
                found += before if ops[operand] == "UnsafeViewBackward0" else []
    after = users[place][0] if users[place] else place
    result = shapes[after]
    if after == place + 1 and ops[after] in _RESHAPES and result is not None and rows is not None:
        same_rows = given[:-1] == result[:-1] if given is not None else program.constants[place]
        if same_rows and len(result) > 2 and result[-1] == rows[-1]:
            return [*found, after]
    return []
