"""Notes on a model's modules, made while they are alive, to be read later.

The notes hold no module and no class of the user's. They have the attributes at the time of noting.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from ...graph.module_paths import below
from .code_steps import Step, Test, calls_method, with_called
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
    """The notes on one module.

    Attributes:
        steps: What its forward does, without what its attributes rule out; None where that is not
            known.
        has_forward: Whether it can be called; a list of modules cannot.
    """

    steps: Sequence[Step] | None
    has_forward: bool


_Code = tuple[type, str, bool]  # a class, the name of its method, whether another's code calls it


class _Left(NamedTuple):
    """The steps of a method that a module's attributes do not rule out.

    Attributes:
        steps: The steps.
        asked: Which of them may call a method of another module: place -> its dotted name.
    """

    steps: Sequence[Step]
    asked: Mapping[int, str]


def noted_modules(
    modules: Mapping[str, nn.Module], certain: Iterable[str]
) -> dict[str, NotedModule]:
    """Note what the modules of some models do.

    Returns the same paths, of all models that these are in; a model of which nothing is certain is
    left out, for its code need not be read.
    """
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
        self._read: dict[_Code, tuple[Sequence[Step] | None, dict[int, Test | None]]] = {}
        self._left: dict[tuple[_Code, tuple[bool | None, ...]], _Left] = {}
        self._joined: dict[tuple[int, ...], Sequence[Step]] = {}
        self._noted: dict[int, NotedModule] = {}
        self._known: dict[tuple[str, str, int], Sequence[Step]] = {}
        self._asked: dict[type, tuple[str, ...] | None] = {}
        self._alike: dict[tuple[Any, ...], NotedModule] = {}

    def noted(self, path: str, module: nn.Module) -> NotedModule:
        """The notes on a module; modules with equal attributes share them."""
        kind = type(module)
        if kind not in self._asked:
            self._asked[kind] = self._attributes(kind)
        names = self._asked[kind]
        if names is None or "forward" in vars(module):
            return self._looked_at(path, module)
        key = kind, *[_plain(_attribute(module, name)) for name in names]
        if key not in self._alike:
            self._alike[key] = self._looked_at(path, module)
        return self._alike[key]

    def _attributes(self, kind: type[nn.Module]) -> tuple[str, ...] | None:
        """The attributes that determine the notes; None if other modules matter too."""
        if not _defines_forward(kind):
            return ()
        steps, tests = self._code(kind, "forward", within=False)
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
                if not any(known[arm.number] is (not arm.side) for arm in step.arms)
            ]
            asked = {i: step.refs[0] for i, step in enumerate(left) if calls_method(step)}
            self._left[key] = _Left(left, asked)
        return self._left[key]

    def _code(
        self, kind: type[nn.Module], method: str, within: bool
    ) -> tuple[Sequence[Step] | None, dict[int, Test | None]]:
        """The steps of a method of a class, and the conditions in it by their numbers."""
        code = kind, method, within
        if code not in self._read:
            read = steps_of(kind, method, within=within)
            numbered = {arm.number: arm.test for step in read or () for arm in step.arms}
            self._read[code] = read, numbered
        return self._read[code]

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
        """Return the steps of a submodule's method, if all submodules of ``ref`` have the same.

        Returns None where that is not known, or no method is meant.
        """
        owner, _, name = ref.rpartition(".")
        if depth >= DEEPEST or (name != "forward" and hasattr(nn.Module, name)):
            return None
        owners = [path]
        for part in owner.split("."):
            inner = {each: self._modules[each]._modules for each in owners}
            owners = [
                below(each, child)
                for each, children in inner.items()
                for child in (children if part == "*" else (part,))
                if below(each, child) in self._modules
            ]
        if any(name in self._modules[each]._modules for each in owners):
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
    """The method that a module runs when it is called: some choose one as they are made.

    Returns its name; None where there is none, or it is none of the module's class.
    """
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
        own = vars(module)
        for held in (own, own["_parameters"], own["_buffers"], own["_modules"]):
            if name in held:
                return held[name]
    return _UNKNOWN
