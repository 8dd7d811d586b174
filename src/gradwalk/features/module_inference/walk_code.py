"""A walk through the code of a model, from each operation of a known module to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...graph.capture import Capture
from ...graph.labels import is_pass_through
from ...graph.names import OUTSIDE, ancestors, common_ancestor, innermost, means
from .code_steps import AGAIN, ANYTHING, Call, is_layer, makes_many
from .module_code import ModuleCode, ResolvedStep, having, is_parametrization

_RESHAPES = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")


@dataclass(frozen=True)
class Program:
    """The operations behind some outputs, at places numbered in the order in which they ran."""

    nodes: list[int]  # the graph node at each place
    ops: list[str]  # its class name
    shapes: list[tuple[int, ...] | None]  # the shape of its first output
    operands: list[list[int]]  # the places of the operations whose outputs it takes
    users: list[list[int]]  # the places of the operations that take its outputs, ascending
    constants: list[bool]  # whether it has an operand that needs no grad
    parameters: list[list[list[str]]]  # the parameters that it takes: of each, its dotted names
    # Place of the product of a linear layer -> the places of the operations that reshape its input
    # to rows, and its result back.
    reshapings: dict[int, list[int]]


def read_program(captured: Capture, parameters: Mapping[int, list[str]]) -> Program:
    """Put the operations of a captured graph in their order.

    Returns its operations. torch numbers them as they are made, so this is the program's order;
    with several threads, it is the order within each thread.
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
    """Return the operations by which a linear layer reshapes its input to rows, and back."""
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


class Anchor(NamedTuple):
    """An operation whose module is certain."""

    place: int  # its position in the program
    path: str  # the module
    calls: list[str]  # the modules that run at the same time, outermost first, itself last
    # Step of its code that calls a function -> the cost of the step as the operation's origin.
    costs: Mapping[int, float | None]
    # The parameters that it takes; none if it takes tensors computed from them.
    parameters: tuple[str, ...]
    before: bool = False  # whether it only prepares the other operands


def certain_operations(program: Program, code: ModuleCode) -> list[Anchor]:
    """Return the operations that take a module's parameters, rearranged or as they are."""
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
        found[place] = Anchor(place, path, code.calls_to(path), code.costs(path, op), own)
        last = path
    for place, anchor in list(found.items()):
        for reshaping in program.reshapings.get(place, ()):
            before = reshaping < place
            costs = code.costs(anchor.path, program.ops[reshaping])
            own = anchor.parameters if before else ()
            around = Anchor(reshaping, anchor.path, anchor.calls, costs, own, before)
            found.setdefault(reshaping, around)
    return [found[place] for place in sorted(found)]


class _Shared:
    """Chooses which of the modules that share a parameter runs."""

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
        """Choose the parameter name of the module that runs."""
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
    """Map each path to the module above the names that all paths end with."""
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


_BEFORE_LAYER = 0.3  # a layer's operations rather follow its parameters than come before them

_Costs = Mapping[int, float | None]  # step of a module -> the cost of assuming it made the node


@dataclass
class _Frame:
    """A running module, and the current step of its code."""

    path: str  # the module
    at: int = -1  # the place of the step that runs; -1 before the first
    # The module that this step calls; None where it uses a parameter itself.
    inner: str | None = None
    used: set[str] = field(default_factory=set)  # the parameters that the step has used


class CodeWalk:
    """The current place of a program in the code of its model."""

    def __init__(self, code: ModuleCode) -> None:
        self._code = code
        self._running = [_Frame(OUTSIDE)]

    def through(self, anchors: Iterable[Anchor]) -> Iterator[list[Call]]:
        """Yield the calls from each operation of a known module to the next, and to the end."""
        for anchor in anchors:
            yield self._go_to(anchor)
        yield [call for frame in reversed(self._running) for call in self._tail(frame)]

    def _go_to(self, anchor: Anchor) -> list[Call]:
        """Move to an operation of a known module; return the calls on the way."""
        _, path, calls, costs, parameters, before = anchor
        running = self._running
        start = len(path) + 1 if path and path != OUTSIDE else 0
        wanted = None if not parameters else parameters[0][start:]
        level, place = self._from_where(calls, wanted, costs, parameters)
        function_calls: list[Call] = []
        for frame in reversed(running[level + 1 :]):
            function_calls += self._tail(frame)
        del running[level + 1 :]
        if place is None:  # the user calls the model once more
            level = 0
            running.append(_Frame(OUTSIDE))
        for called, inner in zip(calls[level:], [*calls[level + 1 :], None], strict=True):
            if place is None or called != running[-1].path:
                running.append(_Frame(called))
                place = self._next(running[-1], inner, wanted, costs, parameters) or 0
            frame = running[-1]
            if before and inner is None:
                place = self._preparing(frame, place, costs)
            function_calls += self._between(frame, place, inner)
            if (frame.at, frame.inner) != (place, inner):
                frame.used.clear()
            frame.at, frame.inner = place, inner
        if not before:
            running[-1].used.update(parameters)
        return function_calls

    def _from_where(
        self, calls: Sequence[str], wanted: str | None, costs: _Costs, parameters: Sequence[str]
    ) -> tuple[int, int | None]:
        """Return the innermost running module that can make some calls, and where; -1 for none."""
        running = self._running
        level = -1
        for frame, called in zip(running, calls, strict=False):
            if frame.path != called:
                break
            level += 1
        place = None
        while place is None and level >= 0:
            inner = calls[level + 1] if level + 1 < len(calls) else None
            place = self._next(running[level], inner, wanted, costs, parameters)
            level -= place is None
        return level, place

    def _next(
        self,
        frame: _Frame,
        inner: str | None,
        wanted: str | None,
        costs: _Costs,
        parameters: Sequence[str],
    ) -> int | None:
        """Return the next place of a call of another module or use of a parameter, if any."""
        steps = self._code.steps(frame.path)
        if not steps:
            return 0
        if inner is None and wanted is None:
            return max(frame.at, 0)
        if inner is not None:
            fits = [i for i, step in enumerate(steps) if inner in step.modules]
        else:
            fits = [i for i in costs if _takes(steps[i], wanted or "")]
            fits = [i for i in fits if costs[i] is not None] or fits
            fits = fits or [i for i in costs if costs[i] == 0]
            fits = fits or [i for i in costs if costs[i]]
        again = inner is None and not frame.used.isdisjoint(parameters)
        if not fits:
            return None if again else max(frame.at, 0)
        for i in fits:
            if i > frame.at or (i == frame.at and self._goes_on(steps[i], frame, inner, again)):
                return i
        if 0 <= frame.at < len(steps):
            loops = steps[frame.at].loops
            goes_over = inner is not None and len(steps[frame.at].names) > 1 and frame.at in fits
            # The innermost loop goes over these modules, each once.
            around = set(loops[:-1] if goes_over else loops)
            return next((i for i in fits if not around.isdisjoint(steps[i].loops)), None)
        return None

    def _preparing(self, frame: _Frame, place: int, costs: _Costs) -> int:
        """Return the last step, up to this one, that can have made a preparing operation."""
        steps = self._code.steps(frame.path) or ()
        for i in range(min(place, len(steps) - 1), frame.at, -1):
            if i not in costs:
                break
            if costs[i] is not None:
                return i
        return place

    def _goes_on(self, step: ResolvedStep, frame: _Frame, inner: str | None, again: bool) -> bool:
        """Whether the running step may also be the next one."""
        if inner is None or frame.inner is None:
            return inner is None and frame.inner is None and not again
        order = step.modules
        return frame.inner in order and order[frame.inner] < order[inner]

    def _tail(self, frame: _Frame) -> list[Call]:
        steps = self._code.steps(frame.path) or ()
        step = steps[frame.at] if 0 <= frame.at < len(steps) else None
        goes_round = step and step.loops and frame.inner and step.names[-1:] != (frame.inner,)
        ran = () if goes_round else (frame.at,)
        return self._piece(frame.path, frame.at, len(steps), after=frame.inner, ran=ran)

    def _between(self, frame: _Frame, place: int, inner: str | None) -> list[Call]:
        """Return the calls of a module from its current place to another, perhaps around a loop."""
        steps = self._code.steps(frame.path)
        path, at = frame.path, frame.at
        if not steps or place > at:
            return self._piece(path, at, place, after=frame.inner, before=inner)
        now, step = steps[at], steps[place]
        order = step.modules
        if place == at and inner is None:
            return self._piece(path, at, place)
        loops = [each for each in now.loops if each in steps[place].loops]
        if place == at and frame.inner is not None and inner is not None:
            loops = loops[: max(1, len(loops) - _turned_within(step, frame.inner, inner))]
        inside = [i for i, a in enumerate(steps) if loops and loops[-1] in a.loops]
        first, last = (inside[0], inside[-1]) if inside else (0, len(steps) - 1)
        now_in = frame.inner
        if place == at and now_in is not None and now_in in order and inner in order:
            assert inner is not None
            names, begin, end = step.names, order[now_in] + 1, order[inner]
            passed = names[begin:end] if begin <= end else (*names[begin:], *names[:end])
            if begin <= end and not inside:  # one call of them all
                return self._inside(passed)
            return [
                *self._piece(path, at + 1, last, ran=()),
                *self._inside(passed),
                *self._piece(path, first, place - 1, ran=()),
            ]
        return [
            *self._piece(path, at, last, after=frame.inner, ran=(at,)),
            *self._piece(path, first, place, before=inner, ran=(place,)),
        ]

    def _piece(
        self,
        path: str,
        first: int,
        last: int,
        *,
        after: str | None = None,
        before: str | None = None,
        ran: Sequence[int] | None = None,
    ) -> list[Call]:
        """Return the calls of a module from one place to another, those of its modules included.

        ``after``: the module after which the calls at ``first`` begin; None for all of them.
        ``before``: the module before which the calls at ``last`` end; None for all of them.
        ``ran``: which places are known to run; both by default, and neither where a loop begins or
        ends.
        """
        steps = self._code.steps(path)
        if steps is None:
            return [Call(ANYTHING, path)]
        ran = (first, last) if ran is None else ran
        sides = {a.number: a.side for i in ran if 0 <= i < len(steps) for a in steps[i].branches}
        begun = steps[first].branches if first in ran and 0 <= first < len(steps) else ()
        left = {branch.number for branch in begun if branch.leaves}
        function_calls = []
        for i in range(max(first, 0), min(last + 1, len(steps))):
            step = steps[i]
            if left and i != first and not left <= {branch.number for branch in step.branches}:
                continue  # it has left the function
            if step.branches and any(
                sides.get(branch.number, branch.side) != branch.side for branch in step.branches
            ):
                continue
            if last < len(steps) and any(a.leaves and a.number not in sides for a in step.branches):
                continue  # it would have left the function
            if step.name is not None:
                loop = (path, step.loops[0]) if step.loops else None
                at_end = i in ran and i in (first, last)
                if at_end and not makes_many(step.name):
                    added = AGAIN
                else:
                    added = _BEFORE_LAYER if is_layer(step.name) and i == last else 0.0
                function_calls.append(Call(step.name, path, loop, added, at_end))
                continue
            begin = step.modules.get(after, -1) + 1 if i == first and after is not None else 0
            end = step.modules.get(before) if i == last and before is not None else None
            function_calls += self._inside(step.names[begin:end])
        return function_calls

    def _inside(self, modules: Sequence[str]) -> list[Call]:
        code = self._code
        return [
            call
            for each in modules
            if each not in code.certain
            for call in code.function_calls(each)
        ]


def _takes(step: ResolvedStep, name: str) -> bool:
    """Whether a step takes the parameter of a dotted name below the module."""
    return any(means(given, name) for given in step.given)


def _turned_within(step: ResolvedStep, now: str, then: str) -> int:
    """Count the inner loops that start over when a loop moves from one module to another."""
    first, second = now.split("."), then.split(".")
    if not len(first) == len(second) == len(step.differing):
        return 0
    where = next((i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b), None)
    return 0 if where is None else sum(step.differing[where + 1 :])
