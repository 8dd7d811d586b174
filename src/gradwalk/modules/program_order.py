"""The operations of a captured graph in the order in which the program ran them."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..graph.adjacency import attributes, successors
from .module_tree import ancestors, is_standard_op
from .plumbing import is_plumbing

if TYPE_CHECKING:
    import networkx as nx

_DOTTED = re.compile(r"[^\W\d]\w*(\.\w+)*|\d+(\.\w+)+")
_PARAMETRIZED = re.compile(r"\.parametrizations(\.\w+)*$|^parametrizations(\.\w+)*$")


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
        leaves: The leaves it takes.
        owners: The dotted path of the module whose parameters it consumes; None for the others.
        parameters: Leaf -> the dotted name of a parameter.
    """

    nodes: list[int]
    ops: list[str]
    shapes: list[tuple[int, ...] | None]
    operands: list[list[int]]
    users: list[list[int]]
    constants: list[bool]
    leaves: list[list[int]]
    owners: list[str | None]
    parameters: dict[int, str]

    def is_used_within(self, place: int, first: int, last: int) -> bool:
        """Whether an operation between two places, inclusive, takes what one gives."""
        users = self.users[place]
        at = bisect.bisect_left(users, first)
        return at < len(users) and users[at] <= last

    def ops_by_owner(self) -> dict[str, set[str]]:
        """The class names of the operations that consume each module's parameters."""
        found: dict[str, set[str]] = {}
        for op, owner in zip(self.ops, self.owners, strict=True):
            if owner is not None:
                found.setdefault(owner, set()).add(op)
        return found


def read_program(graph: nx.MultiDiGraph) -> Program:
    """Put the operations of a captured graph in their order.

    Args:
        graph: As `gradwalk.capture` gives it.

    Returns:
        Its operations. torch numbers them as they are made, so the order is the program's own; of
        graphs made by several threads it is that of each thread.
    """
    data, following = attributes(graph), successors(graph)
    nodes = [node for node, each in data.items() if each["kind"] == "op"]
    nodes.sort(key=lambda node: (data[node]["sequence_nr"], -node))
    places = {node: place for place, node in enumerate(nodes)}
    parameters = {
        node: each["name"]
        for node, each in data.items()
        if each["kind"] == "leaf" and each["name"] and _DOTTED.fullmatch(each["name"])
    }
    operands: list[list[int]] = []
    leaves: list[list[int]] = []
    users: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        targets = following[node]
        operands.append([places[target] for target in targets if target in places])
        leaves.append([target for target in targets if data[target]["kind"] == "leaf"])
        for operand in operands[-1]:
            users[operand].append(place)
    ops = [data[node]["op"] for node in nodes]
    return Program(
        nodes=nodes,
        ops=ops,
        shapes=[data[node]["shape"] for node in nodes],
        operands=operands,
        users=users,
        constants=[bool(data[node]["no_grad_inputs"]) for node in nodes],
        leaves=leaves,
        owners=_owners(ops, operands, leaves, parameters),
        parameters=parameters,
    )


def module_of(parameter: str, names: Iterable[str]) -> str:
    """The module whose forward consumes a parameter: the one it belongs to, but for one case.

    ``nn.MultiheadAttention`` never calls its ``out_proj`` and uses its parameters itself.

    Args:
        parameter: Its dotted name.
        names: The dotted names of all parameters, in a container that is quick to search.
    """
    path = parameter.rpartition(".")[0]
    around, _, last = path.rpartition(".")
    prefix = f"{around}." if around else ""
    attention = ("in_proj_weight", "q_proj_weight")
    if last == "out_proj" and any(prefix + name in names for name in attention):
        return around
    return path


def _owners(
    ops: list[str],
    operands: list[list[int]],
    leaves: list[list[int]],
    parameters: dict[int, str],
) -> list[str | None]:
    names = set(parameters.values())
    owner_of = {leaf: module_of(name, names) for leaf, name in parameters.items() if "." in name}
    owner_of |= {leaf: "" for leaf, name in parameters.items() if "." not in name}
    owners: list[str | None] = []
    derived: list[str | None] = []  # of a parameter that was only transposed, cast, ... so far
    for place, op in enumerate(ops):
        direct = {owner_of[leaf] for leaf in leaves[place] if leaf in owner_of}
        earlier = [derived[operand] if operand < place else None for operand in operands[place]]
        indirect = {_PARAMETRIZED.sub("", owner) for owner in earlier if owner is not None}
        owner = _one(direct | indirect)
        only = bool(direct | indirect) and None not in earlier
        given = {each for each in earlier if each is not None} | direct
        source = _one(given) if only and len(given) == 1 else None
        parametrized = source is not None and _PARAMETRIZED.search(source) is not None
        if parametrized and (direct or not is_standard_op(op)):
            derived.append(source)
            owners.append(f"{source}.0")  # the list of them only calls the first
        else:
            derived.append(owner if only and is_plumbing(op) else None)
            owners.append(owner)
    return owners


def _one(paths: set[str]) -> str | None:
    """The innermost of some modules inside each other; else the module around all of them."""
    if not paths:
        return None
    deepest = max(paths, key=len)
    around = ancestors(deepest)
    if all(path in around for path in paths):
        return deepest
    shared = set.intersection(*(set(ancestors(path)) for path in paths))
    return max(shared, key=len)
