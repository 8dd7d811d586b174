"""The operations of which the module is certain: those that take its parameters."""

from __future__ import annotations

from typing import NamedTuple

from .module_code import ModuleCode, having, is_parametrization
from .paths import common_ancestor, innermost
from .plumbing import is_plumbing
from .program_order import Program

_RESHAPES = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")


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
        path = innermost(
            {*direct.values(), *(having(each) for each in earlier if each is not None)}
        )
        source = next(iter(given))
        if only and len(given) == 1 and is_parametrization(source):
            if direct or not code.makes(having(source), op):
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
