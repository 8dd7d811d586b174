"""The operations of a captured graph in the order in which the program ran them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..graph.adjacency import attributes, successors
from .module_code import ModuleCode, is_parametrization
from .paths import ancestors, common_ancestor
from .plumbing import is_plumbing

if TYPE_CHECKING:
    import networkx as nx

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
    """

    nodes: list[int]
    ops: list[str]
    shapes: list[tuple[int, ...] | None]
    operands: list[list[int]]
    users: list[list[int]]
    constants: list[bool]
    parameters: list[list[list[str]]]


class Anchor(NamedTuple):
    """An operation of which the module is certain.

    Attributes:
        place: Where it stands in the program.
        path: The module.
        parameters: The parameters that it takes; none where it takes what was made of them.
    """

    place: int
    path: str
    parameters: tuple[str, ...]


def in_program_order(graph: nx.MultiDiGraph) -> list[int]:
    """The operations of a captured graph in the order in which torch numbered them."""
    data = attributes(graph)
    nodes = [node for node, each in data.items() if each["kind"] == "op"]
    return sorted(nodes, key=lambda node: (data[node]["sequence_nr"], -node))


def read_program(graph: nx.MultiDiGraph, parameters: Mapping[int, list[str]]) -> Program:
    """Put the operations of a captured graph in their order.

    Args:
        graph: As `gradwalk.capture` gives it.
        parameters: The dotted names of each leaf that is a parameter.

    Returns:
        Its operations. torch numbers them as they are made, so the order is the program's own; of
        graphs made by several threads it is that of each thread.
    """
    data, following = attributes(graph), successors(graph)
    nodes = in_program_order(graph)
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


def certain_operations(program: Program, code: ModuleCode) -> list[Anchor]:
    """The operations that take a module's parameters, or what was only rearranged of one."""
    found: dict[int, Anchor] = {}
    derived: dict[int, str] = {}  # what is still a parameter: transposed, cast, computed anew
    last = ""
    for place, op in enumerate(program.ops):
        names = [_name(names, op, last, code) for names in program.parameters[place]]
        direct = {name: code.user(name.rpartition(".")[0]) for name in names}
        earlier = [derived.get(operand) for operand in program.operands[place]]
        given = {each for each in earlier if each is not None} | set(direct.values())
        if not given:
            continue
        only = None not in earlier
        path = _innermost(
            {*direct.values(), *(_having(each) for each in earlier if each is not None)}
        )
        source = next(iter(given))
        if only and len(given) == 1 and is_parametrization(source):
            if direct or not code.makes(_having(source), op):
                derived[place] = source
                path = f"{source}.0"  # the list of them only calls the first
        elif only and is_plumbing(op):
            derived[place] = path
        own = tuple(name for name, user in direct.items() if user == path)
        found[place] = Anchor(place, path, own)
        last = path
    for place, anchor in list(found.items()):
        for reshaping in _reshapings(program, place):
            found.setdefault(reshaping, Anchor(reshaping, anchor.path, ()))
    return [found[place] for place in sorted(found)]


def _name(names: list[str], op: str, last: str, code: ModuleCode) -> str:
    """Of the names of a parameter that several modules share, that of the one that runs."""
    if len(names) == 1:
        return names[0]

    def fit(name: str) -> tuple[bool, bool, int]:
        path = name.rpartition(".")[0]
        return code.makes(path, op), code.is_called(path), len(common_ancestor([last, path]))

    return max(names, key=fit)


def _having(path: str) -> str:
    """The module that has a parametrized parameter; any other itself."""
    return path.partition(".parametrizations")[0] if is_parametrization(path) else path


def _innermost(paths: set[str]) -> str:
    """The innermost of some modules inside each other; else the module around all of them."""
    deepest = max(paths, key=len)
    around = ancestors(deepest)
    return deepest if all(path in around for path in paths) else common_ancestor(paths)


def _reshapings(program: Program, place: int) -> list[int]:
    """What a linear layer reshapes its input to rows with, and its result back."""
    ops, shapes, users = program.ops, program.shapes, program.users
    if not ops[place].startswith(("Addmm", "Mm")):
        return []
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
