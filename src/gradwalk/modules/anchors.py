"""The operations of which the module is certain: those that take its parameters."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from .module_code import ModuleCode, having, is_parametrization
from .paths import ancestors, common_ancestor, innermost
from .plumbing import is_plumbing
from .program_order import Program

_RESHAPES = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")


class Anchor(NamedTuple):
    """An operation of which the module is certain.

    Attributes:
        place: Where it stands in the program.
        path: The module.
        parameters: The parameters that it takes; none where it takes what was made of them.
        before: Whether it only prepares what is taken together with them.
    """

    place: int
    path: str
    parameters: tuple[str, ...]
    before: bool = False


def certain_operations(program: Program, code: ModuleCode) -> list[Anchor]:
    """The operations that take a module's parameters, or what was only rearranged of one."""
    found: dict[int, Anchor] = {}
    derived: dict[int, str] = {}  # what is still a parameter: transposed, cast, computed anew
    last, shared = "", _Shared(program, code)
    for place, op in enumerate(program.ops):
        names = [shared.name(names, op, place, last) for names in program.parameters[place]]
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
            before = reshaping < place
            parameters = anchor.parameters if before else ()
            found.setdefault(reshaping, Anchor(reshaping, anchor.path, parameters, before))
    return [found[place] for place in sorted(found)]


class _Shared:
    """Which of several modules that share a parameter runs."""

    def __init__(self, program: Program, code: ModuleCode) -> None:
        self._code = code
        self._used: Counter[str] = Counter()
        # At each place, the module of the next parameter that has one name only.
        self._next = [""] * len(program.ops)
        following = ""
        for place in reversed(range(len(program.ops))):
            self._next[place] = following
            for names in program.parameters[place]:
                if len(names) == 1:
                    following = names[0].rpartition(".")[0]

    def name(self, names: list[str], op: str, place: int, last: str) -> str:
        """Of the names of a parameter, that of the module that runs.

        Args:
            names: The names.
            op: The class name of the node that takes it.
            place: The place of that.
            last: The module of the parameter before.
        """
        if len(names) == 1:
            return names[0]

        near = [last, self._next[place]]
        holders = _holders([name.rpartition(".")[0] for name in names])

        def fit(name: str) -> tuple[bool, bool, bool, int, int]:
            path = name.rpartition(".")[0]
            holder = holders[path]
            return (
                self._code.makes(path, op),
                self._code.is_run(path),
                any(holder in ancestors(each) for each in near),
                sum(len(common_ancestor([each, holder])) for each in near),
                -self._used[name],
            )

        found = max(names, key=fit)
        self._used[found] += 1
        return found


def _holders(paths: list[str]) -> dict[str, str]:
    """The modules that hold a shared one: what is in it has the same names everywhere."""
    found = {}
    parts = [path.split(".") for path in paths]
    same = 0
    while len({tuple(each[len(each) - same - 1 :]) for each in parts}) == 1 and same < min(
        map(len, parts)
    ):
        same += 1
    for path, each in zip(paths, parts, strict=True):
        found[path] = ".".join(each[: max(len(each) - same - 1, 0)])
    return found


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
