"""The operations whose module is certain, because they take its parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ...graph.module_paths import ancestors, common_ancestor, innermost
from ...graph.pass_through import is_pass_through
from .module_code import ModuleCode, having, is_parametrization
from .program_order import Program


class Anchor(NamedTuple):
    """An operation whose module is certain.

    Attributes:
        place: Its position in the program.
        path: The module.
        calls: The modules that run while it does, outermost first, itself at the end.
        doubts: Step of its code that calls a function -> the cost of the step as the operation's
            origin.
        parameters: The parameters that it takes; none if it takes tensors computed from them.
        before: Whether it only prepares the other operands.
    """

    place: int
    path: str
    calls: list[str]
    doubts: Mapping[int, float | None]
    parameters: tuple[str, ...]
    before: bool = False


def certain_operations(program: Program, code: ModuleCode) -> list[Anchor]:
    """The operations that take a module's parameters, or what was only rearranged of one."""
    found: dict[int, Anchor] = {}
    derived: dict[int, str] = {}  # parameters that were transposed, cast or recomputed
    last, shared = "", _Shared(program, code)
    for place, op in enumerate(program.ops):
        names = [shared.name(names, op, place, last) for names in program.parameters[place]]
        direct = {name: code.user(name.rpartition(".")[0]) for name in names}
        earlier = [derived.get(operand) for operand in program.operands[place]]
        given = {each for each in earlier if each is not None} | set(direct.values())
        if not given:
            continue
        only = None not in earlier
        rearranges = only and is_pass_through(op)
        path = innermost(
            {*direct.values(), *(having(each) for each in earlier if each is not None)}
        )
        source = next(iter(given))
        if only and len(given) == 1 and is_parametrization(source):
            if direct or not code.makes(having(source), op):
                derived[place] = source
                path = f"{source}.0"  # the list of them only calls the first
        elif rearranges:
            derived[place] = path
        own = tuple(name for name, user in direct.items() if user == path)
        found[place] = Anchor(place, path, code.calls_to(path), code.doubts(path, op), own)
        last = path
    for place, anchor in list(found.items()):
        for reshaping in program.reshapings.get(place, ()):
            before = reshaping < place
            doubts = code.doubts(anchor.path, program.ops[reshaping])
            own = anchor.parameters if before else ()
            around = Anchor(reshaping, anchor.path, anchor.calls, doubts, own, before)
            found.setdefault(reshaping, around)
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
        """Choose the parameter name of the module that runs.

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
