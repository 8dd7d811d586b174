"""The modules of a model, and what the code of each does.

Notes are made while the modules are alive, and read later. They hold no module and no class of the
user's, but their attributes at the time of noting.
"""

from __future__ import annotations

import inspect
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from ...graph.names import OUTSIDE, ancestors, below, means
from ...result import remembered
from ...torch_api.modules import own_buffers, own_parameters, submodules
from .code_steps import ANYTHING, Branch, Call, Step, Test, calls_method, cost, with_called
from .forward_code import DEEPEST, MOST_STEPS, steps_of

_UNKNOWN = object()
_NOT_PLAIN = object()
_NO_FORWARD = inspect.getattr_static(nn.Module, "forward")
_DROPOUTS = (
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    *(nn.AlphaDropout, nn.FeatureAlphaDropout),
)


@dataclass(frozen=True)
class NotedModule:
    """The notes on one module."""

    # What its forward does, without what its attributes rule out; None where that is not known.
    steps: Sequence[Step] | None
    has_forward: bool  # whether it can be called; a list of modules cannot


_Code = tuple[type, str, bool]  # a class, the name of its method, whether another's code calls it


class _Left(NamedTuple):
    """The steps of a method that a module's attributes do not rule out."""

    steps: Sequence[Step]  # the steps
    # Which of them may call a method of another module: place -> its dotted name.
    asked: Mapping[int, str]


def noted_modules(
    modules: Mapping[str, nn.Module], certain: Iterable[str]
) -> dict[str, NotedModule]:
    """Return the paths of all models, and note what their modules do where it is certain."""
    models = {path.partition(".")[0] for path in certain}
    noting = _Noting(modules)
    return {
        path: noting.noted(path, module)
        for path, module in modules.items()
        if "" in modules or path.partition(".")[0] in models
    }


class _Noting:
    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        self._modules = modules
        # Modules of one class have the same code; what it comes to depends on their attributes.
        self._left: dict[tuple[_Code, tuple[bool | None, ...]], _Left] = {}
        self._joined: dict[tuple[int, ...], Sequence[Step]] = {}
        self._noted: dict[int, NotedModule] = {}
        self._known: dict[tuple[str, str, int], Sequence[Step]] = {}
        self._alike: dict[tuple[Any, ...], NotedModule] = {}

    def noted(self, path: str, module: nn.Module) -> NotedModule:
        """The notes on a module; modules with equal attributes share them."""
        kind = type(module)
        names = self._attributes(kind)
        if names is None or "forward" in vars(module):
            return self._looked_at(path, module)
        key = kind, *[_plain(_attribute(module, name)) for name in names]
        if key not in self._alike:
            self._alike[key] = self._looked_at(path, module)
        return self._alike[key]

    @remembered
    def _attributes(self, kind: type[nn.Module]) -> tuple[str, ...] | None:
        """The attributes that determine the notes; None if other modules matter too."""
        if not _defines_forward(kind):
            return ()
        steps, tests = self._code(kind, "forward", False)
        names = {name: None for test in tests.values() for name in _names_in(test)}
        if any("." in name for name in names) or any(map(calls_method, steps or ())):
            return None
        return (*names, "p") if issubclass(kind, _DROPOUTS) else tuple(names)

    def _looked_at(self, path: str, module: nn.Module) -> NotedModule:
        forward = _forward_of(module)
        has_forward = forward is not None or _defines_forward(type(module))
        if isinstance(module, _DROPOUTS) and _plain(_attribute(module, "p")) == 0:
            return NotedModule([], has_forward)  # it returns its input
        steps = None if forward is None else self._steps(path, forward, 0)
        if steps is None:
            return NotedModule(None, has_forward)
        return self._noted.setdefault(id(steps), NotedModule(steps, has_forward))

    def _steps(self, path: str, method: str, depth: int) -> Sequence[Step] | None:
        """Return the steps of a module's method; equal steps are one object.

        The steps of other modules' methods replace the call: they run in the module that
        calls them, for only a call of a module itself is one.
        """
        left = self._without_ruled_out(path, method, within=depth > 0)
        if left is None or not left.asked:
            return None if left is None else left.steps
        key = path, method, depth
        if key not in self._known:
            self._known[key] = self._with_methods(path, left, depth)
        return self._known[key]

    def _without_ruled_out(self, path: str, method: str, *, within: bool) -> _Left | None:
        kind = type(self._modules[path])
        code = kind, method, within
        steps, tests = self._code(*code)
        if steps is None:
            return None
        holds = tuple(self._holds(path, test) for test in tests.values()) if tests else ()
        key = code, holds
        if key not in self._left:
            known = dict(zip(tests, holds, strict=True))
            left = [
                step
                for step in steps
                if not any(known[branch.number] is (not branch.side) for branch in step.branches)
            ]
            asked = {i: step.refs[0] for i, step in enumerate(left) if calls_method(step)}
            self._left[key] = _Left(left, asked)
        return self._left[key]

    @remembered
    def _code(
        self, kind: type[nn.Module], method: str, within: bool
    ) -> tuple[Sequence[Step] | None, dict[int, Test | None]]:
        """The steps of a method of a class, and the conditions in it by their numbers."""
        read = steps_of(kind, method, within=within)
        tests = {branch.number: branch.test for step in read or () for branch in step.branches}
        return read, tests

    def _with_methods(self, path: str, left: _Left, depth: int) -> Sequence[Step]:
        found = {i: self._method(path, ref, depth) for i, ref in left.asked.items()}
        inner = {i: steps for i, steps in found.items() if steps is not None}
        size = len(left.steps) + sum(map(len, inner.values()))
        if not inner or size > MOST_STEPS:
            return left.steps
        key = id(left), *(each for i, steps in inner.items() for each in (i, id(steps)))
        if key not in self._joined:
            self._joined[key] = with_called(left.steps, inner)
        return self._joined[key]

    def _method(self, path: str, ref: str, depth: int) -> Sequence[Step] | None:
        """Return the steps of a submodule's method, if all submodules of ``ref`` have the same."""
        owner, _, name = ref.rpartition(".")
        if depth >= DEEPEST or (name != "forward" and hasattr(nn.Module, name)):
            return None
        owners = [path]
        for part in owner.split("."):
            inner = {each: submodules(self._modules[each]) for each in owners}
            owners = [
                below(each, child)
                for each, children in inner.items()
                for child in (children if part == "*" else (part,))
                if below(each, child) in self._modules
            ]
        if any(name in submodules(self._modules[each]) for each in owners):
            return None
        found: dict[int, Sequence[Step]] = {}
        for each in owners:
            method = _forward_of(self._modules[each]) if name == "forward" else name
            steps = None if method is None else self._steps(each, method, depth + 1)
            if steps is None:
                return None
            found[id(steps)] = steps
        return found.popitem()[1] if len(found) == 1 else None

    def _holds(self, path: str, test: Test | None) -> bool | None:
        """Whether a condition on a module's attributes holds now; None where that is not known."""
        if test is None:
            return None
        kind, *rest = test
        if kind == "not":
            inner = self._holds(path, rest[0])
            return None if inner is None else not inner
        if kind in ("and", "or"):
            each = [self._holds(path, part) for part in rest[0]]
            decisive = kind == "or"
            return decisive if decisive in each else None if None in each else not decisive
        owner, _, name = rest[0].rpartition(".")
        value = _plain(_attribute(self._modules.get(below(path, owner)), name))
        if value is _UNKNOWN:
            return None
        if kind == "true":
            return None if value is _NOT_PLAIN else bool(value)
        if value is _NOT_PLAIN:
            return kind == "!=" if rest[1] is None and kind != ">" else None
        if kind == ">":
            numbers = isinstance(value, (int, float)) and isinstance(rest[1], (int, float))
            return bool(value > rest[1]) if numbers else None
        return bool(value == rest[1]) is (kind == "==")


def _defines_forward(kind: type[nn.Module]) -> bool:
    """Whether a class has a forward of its own; a descriptor is not run, which may raise."""
    return inspect.getattr_static(kind, "forward") is not _NO_FORWARD


def _forward_of(module: nn.Module) -> str | None:
    """The method that a module runs when it is called; None where its class has no such method."""
    if "forward" not in vars(module):
        return "forward" if _defines_forward(type(module)) else None
    try:
        inner = inspect.unwrap(vars(module)["forward"])
    except Exception:  # the user's object decides what it answers to `__wrapped__`
        return None
    if not isinstance(inner, types.MethodType) or inner.__self__ is not module:
        return None
    name = inner.__func__.__name__
    is_own = inspect.getattr_static(type(module), name, None) is inner.__func__
    return name if is_own else None


def _names_in(test: Test | None) -> Iterator[str]:
    """The attributes that a condition asks for."""
    if test is None:
        return
    kind, *rest = test
    if kind == "not":
        yield from _names_in(rest[0])
    elif kind in ("and", "or"):
        for part in rest[0]:
            yield from _names_in(part)
    else:
        yield rest[0]


def _plain(value: Any) -> Any:
    """Return a plain value for conditions to test; one mark for any other value."""
    is_plain = value is None or value is _UNKNOWN or isinstance(value, (bool, int, float, str))
    return value if is_plain else _NOT_PLAIN


def _attribute(module: nn.Module | None, name: str) -> Any:
    """Return a module's attribute without running any code of its class."""
    if module is not None:
        held: Mapping[str, Any]
        for held in (
            vars(module),
            own_parameters(module),
            own_buffers(module),
            submodules(module),
        ):
            if name in held:
                return held[name]
    return _UNKNOWN


class ResolvedStep(NamedTuple):
    """A step of a module's code with its names looked up."""

    name: str | None  # the function; None for a call of modules
    # The paths of the modules that it may call, with their places in their order.
    modules: Mapping[str, int]
    given: tuple[str, ...]  # the names below the module of its arguments
    loops: tuple[int, ...]  # as in `Step`
    branches: tuple[Branch, ...]  # as in `Step`
    names: tuple[str, ...] = ()  # the same paths, in their order
    # Which parts of these paths differ, where loops within loops call them: ``blocks.0.3`` and
    # ``blocks.1.0`` have a part for each loop. Empty otherwise.
    differing: tuple[bool, ...] = ()


def _differing(paths: Sequence[str]) -> tuple[bool, ...]:
    """Return which parts of some paths differ; none if they have different numbers of parts."""
    parts = [path.split(".") for path in paths]
    if len({*map(len, parts)}) > 1:
        return ()
    return tuple(len(set(each)) > 1 for each in zip(*parts, strict=True))


class ModuleCode:
    """The steps of a model's modules, by path."""

    def __init__(self, modules: Mapping[str, NotedModule], certain: Iterable[str]) -> None:
        self.modules = modules
        self.certain = set[str]()
        for each in certain:
            path = each
            while path not in self.certain:  # and what is around it, each once
                self.certain.add(path)
                path = path.rpartition(".")[0]
        self._children: dict[str, list[str]] = defaultdict(list)
        for path in modules:
            if path:
                self._children[path.rpartition(".")[0]].append(path)
        self._deeds: dict[str, list[Call]] = {}

    @remembered
    def steps(self, path: str) -> list[ResolvedStep] | None:
        """Return the steps of a module, in the order of its code; None if unknown."""
        module = self.modules.get(path)
        steps = None if module is None else module.steps
        return None if steps is None else list(self._looked_up(path, steps))

    def _looked_up(self, path: str, steps: Sequence[Step]) -> Iterable[ResolvedStep]:
        meant: dict[tuple[str, ...], list[str]] = {}
        for step in steps:
            if step.refs not in meant:
                found = (m for ref in step.refs for m in self._meant(path, ref))
                meant[step.refs] = [module for module in found if module != path]
            modules = meant[step.refs]
            around = step.given, step.loops, step.branches
            if step.name is not None:
                if not (step.name == "getitem" and modules):  # of a list of modules
                    yield ResolvedStep(step.name, {}, *around)
            elif modules:
                order = {module: i for i, module in enumerate(dict.fromkeys(modules))}
                names = tuple(order)
                differing = _differing(names) if len(step.loops) > 1 else ()
                yield ResolvedStep(None, order, *around, names, differing)
            elif step.given != step.refs:  # a method of a tensor, a function kept in an attribute
                owner, _, name = step.refs[0].rpartition(".")
                yield ResolvedStep(name if owner else ANYTHING, {}, *around)

    def _meant(self, path: str, ref: str) -> list[str]:
        """Return the modules that a name below a module may mean."""
        found = [path]
        for part in ref.split(".") if ref else ():
            if part == "*":
                found = [child for each in found for child in self._children[each]]
            else:
                found = [name for each in found if (name := below(each, part)) in self.modules]
        return [inner for each in found for inner in self._callable(each)]

    def _callable(self, path: str) -> list[str]:
        """Return a module; of a container without forward (a list, a dict), its modules."""
        if self.modules[path].has_forward:
            return [path]
        return [inner for child in self._children[path] for inner in self._callable(child)]

    @remembered
    def caller(self, path: str) -> str:
        """Return the module whose code calls a module; OUTSIDE for one that the user calls."""
        outer, _, last = path.rpartition(".")
        if is_parametrization(path):  # run by looking at a parameter
            return outer if last.isdigit() else outer.rpartition(".")[0]
        around = [each for each in ancestors(path)[1:] if each in self.modules]
        if not path or not around:
            return OUTSIDE
        runs = (each for each in around if self._has_forward(each))
        calling = [each for each in around if path in self._called(each)]
        run = (each for each in calling if self.is_run(each))
        return next(run, next(iter(calling), next(runs, OUTSIDE)))

    @remembered
    def _called(self, path: str) -> set[str]:
        return {each for step in self.steps(path) or () for each in step.modules}

    @remembered
    def user(self, path: str) -> str:
        """Return the module whose code uses a module's parameters: itself, if it is called.

        ``nn.MultiheadAttention`` never calls its ``out_proj`` and uses its parameters itself.
        """
        if not path or is_parametrization(path) or self.is_called(path):
            return path
        around = [each for each in ancestors(path)[1:] if each in self.modules]
        using = next((each for each in around if self._mentions(each, path)), None)
        return path if using is None else self.user(using)

    def _mentions(self, path: str, module: str) -> bool:
        name = module[len(path) + 1 if path else 0 :]
        return any(
            means(given, name, around=True)
            for step in self.steps(path) or ()
            if step.name is not None
            for given in step.given
        )

    def makes(self, path: str, op: str) -> bool:
        """Whether the code of a module makes nodes of a class."""
        return 0 in self.costs(path, op).values()

    @remembered
    def costs(self, path: str, op: str) -> dict[int, float | None]:
        """Return step -> the cost of assuming that it made a node, for calls of functions."""
        steps = enumerate(self.steps(path) or ())
        called = ((i, step.name) for i, step in steps if step.name is not None)
        return {i: cost(name, op) for i, name in called}

    def is_called(self, path: str) -> bool:
        """Whether the code of an enclosing module calls a module."""
        around = (each for each in ancestors(path)[1:] if each in self.modules)
        return any(path in self._called(each) for each in around)

    @remembered
    def is_run(self, path: str) -> bool:
        """Whether a module and every enclosing module are called."""
        outer = next((p for p in ancestors(path)[1:] if self._has_forward(p)), None)
        return outer is None or (self.is_called(path) and self.is_run(outer))

    def _has_forward(self, path: str) -> bool:
        return path in self.modules and self.modules[path].has_forward

    def calls_to(self, path: str) -> list[str]:
        """Return the modules that run while a module runs, outermost first, itself last."""
        found = [path]
        while found[-1] != OUTSIDE:
            found.append(self.caller(found[-1]))
        return found[::-1]

    def function_calls(self, path: str) -> list[Call]:
        """Return all calls in a module without parameters in the graph, and in its modules."""
        if path not in self._deeds:
            self._deeds[path] = []  # of a module within itself
            steps = self.steps(path)
            found = [Call(ANYTHING, path)] if steps is None else []
            for step in steps or ():
                if step.name is not None:
                    loop = (path, step.loops[0]) if step.loops else None
                    found.append(Call(step.name, path, loop))
                for module in step.modules:
                    if module not in self.certain:
                        found += self.function_calls(module)
            self._deeds[path] = found
        return self._deeds[path]


def is_parametrization(path: str) -> bool:
    """Whether a path leads to something that `torch.nn.utils.parametrize` added to a module."""
    return ".parametrizations." in f".{path}."


def having(path: str) -> str:
    """Return the module of a parametrized parameter; any other path itself."""
    return path.partition(".parametrizations")[0] if is_parametrization(path) else path
