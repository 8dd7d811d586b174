"""The modules of a model, and what the code of each does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...graph.module_paths import OUTSIDE, ancestors, below, means
from .code_alignment import Call
from .code_steps import ANYTHING, Branch, Step, cost
from .noted_modules import NotedModule


class ResolvedStep(NamedTuple):
    """A step of a module's code with its names looked up.

    Attributes:
        name: The function; None for a call of modules.
        modules: The paths of those that it may call, with their places in their order.
        given: The names below the module of what goes in.
        loops: As in `Step`.
        arms: As in `Step`.
        names: The same paths, in their order.
    """

    name: str | None
    modules: Mapping[str, int]
    given: tuple[str, ...]
    loops: tuple[int, ...]
    arms: tuple[Branch, ...]
    names: tuple[str, ...] = ()


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
        self._acts: dict[str, list[ResolvedStep] | None] = {OUTSIDE: None}
        self._deeds: dict[str, list[Call]] = {}
        self._doubts: dict[tuple[str, str], dict[int, float | None]] = {}
        self._called: dict[str, set[str]] = {}
        self._callers: dict[str, str] = {}
        self._users: dict[str, str] = {}
        self._runs: dict[str, bool] = {}

    def acts(self, path: str) -> list[ResolvedStep] | None:
        """Return the steps of a module, in the order of its code; None if unknown."""
        if path not in self._acts:
            module = self.modules.get(path)
            steps = None if module is None else module.steps
            self._acts[path] = None if steps is None else list(self._looked_up(path, steps))
        return self._acts[path]

    def _looked_up(self, path: str, steps: Sequence[Step]) -> Iterable[ResolvedStep]:
        meant: dict[tuple[str, ...], list[str]] = {}
        for step in steps:
            if step.refs not in meant:
                found = (m for ref in step.refs for m in self._meant(path, ref))
                meant[step.refs] = [module for module in found if module != path]
            modules = meant[step.refs]
            around = step.given, step.loops, step.arms
            if step.name is not None:
                if not (step.name == "getitem" and modules):  # of a list of modules
                    yield ResolvedStep(step.name, {}, *around)
            elif modules:
                order = {module: i for i, module in enumerate(dict.fromkeys(modules))}
                yield ResolvedStep(None, order, *around, tuple(order))
            elif step.given != step.refs:  # a method of a tensor, a function kept in an attribute
                owner, _, name = step.refs[0].rpartition(".")
                yield ResolvedStep(name if owner else ANYTHING, {}, *around)

    def _meant(self, path: str, ref: str) -> list[str]:
        """The modules that a name below a module may mean."""
        found = [path]
        for part in ref.split(".") if ref else ():
            if part == "*":
                found = [child for each in found for child in self._children[each]]
            else:
                found = [name for each in found if (name := below(each, part)) in self.modules]
        return [inner for each in found for inner in self._callable(each)]

    def _callable(self, path: str) -> list[str]:
        """A module; for a container without forward (a list, a dict), its modules."""
        if self.modules[path].has_forward:
            return [path]
        return [inner for child in self._children[path] for inner in self._callable(child)]

    def caller(self, path: str) -> str:
        """The module whose code calls one; OUTSIDE for that which the user calls."""
        if path not in self._callers:
            self._callers[path] = self._caller(path)
        return self._callers[path]

    def _caller(self, path: str) -> str:
        outer, _, last = path.rpartition(".")
        if is_parametrization(path):  # run by looking at a parameter
            return outer if last.isdigit() else outer.rpartition(".")[0]
        around = [each for each in ancestors(path)[1:] if each in self.modules]
        if not path or not around:
            return OUTSIDE
        runs = (each for each in around if self._has_forward(each))
        calling = [each for each in around if self._calls(each, path)]
        run = (each for each in calling if self.is_run(each))
        return next(run, next(iter(calling), next(runs, around[-1])))

    def _calls(self, path: str, module: str) -> bool:
        if path not in self._called:
            self._called[path] = {each for act in self.acts(path) or () for each in act.modules}
        return module in self._called[path]

    def user(self, path: str) -> str:
        """The module whose code uses the parameters of one: it itself, if it is called.

        ``nn.MultiheadAttention`` never calls its ``out_proj`` and uses its parameters itself.
        """
        if path not in self._users:
            self._users[path] = self._user(path)
        return self._users[path]

    def _user(self, path: str) -> str:
        if not path or is_parametrization(path) or self.is_called(path):
            return path
        around = [each for each in ancestors(path)[1:] if each in self.modules]
        using = next((each for each in around if self._mentions(each, path)), None)
        return path if using is None else self.user(using)

    def _mentions(self, path: str, module: str) -> bool:
        name = module[len(path) + 1 if path else 0 :]
        return any(
            means(given, name, around=True)
            for act in self.acts(path) or ()
            if act.name is not None
            for given in act.given
        )

    def makes(self, path: str, op: str) -> bool:
        """Whether the code of a module makes nodes of a class."""
        return 0 in self.doubts(path, op).values()

    def doubts(self, path: str, op: str) -> dict[int, float | None]:
        """Return how doubtful it is, for each step that calls a function, that it made a node.

        Returns place of the step -> its cost, see `code_steps.cost`, in the order of the code.
        """
        if (path, op) not in self._doubts:
            acts = enumerate(self.acts(path) or ())
            called = ((i, act.name) for i, act in acts if act.name is not None)
            self._doubts[path, op] = {i: cost(name, op) for i, name in called}
        return self._doubts[path, op]

    def is_called(self, path: str) -> bool:
        """Whether the code of a module around calls one."""
        return any(self._calls(each, path) for each in ancestors(path)[1:] if each in self.modules)

    def is_run(self, path: str) -> bool:
        """Whether one is called, and so is every module around it."""
        if path not in self._runs:
            outer = next((p for p in ancestors(path)[1:] if self._has_forward(p)), None)
            self._runs[path] = outer is None or (self.is_called(path) and self.is_run(outer))
        return self._runs[path]

    def _has_forward(self, path: str) -> bool:
        return path in self.modules and self.modules[path].has_forward

    def calls_to(self, path: str) -> list[str]:
        """The modules that run while one does, outermost first, itself at the end."""
        found = [path]
        while found[-1] != OUTSIDE:
            found.append(self.caller(found[-1]))
        return found[::-1]

    def deeds(self, path: str) -> list[Call]:
        """All that a module without parameters in the graph does, with what is in it."""
        if path not in self._deeds:
            self._deeds[path] = []  # of a module within itself
            acts = self.acts(path)
            found = [Call(ANYTHING, path)] if acts is None else []
            for act in acts or ():
                if act.name is not None:
                    loop = (path, act.loops[0]) if act.loops else None
                    found.append(Call(act.name, path, loop))
                for module in act.modules:
                    if module not in self.certain:
                        found += self.deeds(module)
            self._deeds[path] = found
        return self._deeds[path]


def is_parametrization(path: str) -> bool:
    """Whether a path leads into what `torch.nn.utils.parametrize` put into a module."""
    return ".parametrizations." in f".{path}."


def having(path: str) -> str:
    """The module that has a parametrized parameter; any other itself."""
    return path.partition(".parametrizations")[0] if is_parametrization(path) else path
