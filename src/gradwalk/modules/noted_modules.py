"""What is known of a model's modules, noted while they are there, so that it can be read later.

Whoever reads it holds no module and no class of the user's, and finds what their attributes said
when it was noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from .code_steps import Step, Test
from .forward_code import steps_of
from .paths import below

_UNKNOWN = object()
_NO_FORWARD = nn.Module.forward
_DROPOUTS = (
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    *(nn.AlphaDropout, nn.FeatureAlphaDropout),
)


@dataclass(frozen=True)
class NotedModule:
    """What is known of a module.

    Attributes:
        steps: What its forward does, without what its attributes rule out; None where that is not
            known.
        has_forward: Whether it can be called; a list of modules cannot.
    """

    steps: Sequence[Step] | None
    has_forward: bool


def noted_modules(
    modules: Mapping[str, nn.Module], certain: Iterable[str]
) -> dict[str, NotedModule]:
    """Note what the modules of some models do.

    Args:
        modules: The modules, by dotted path.
        certain: The paths of some of them.

    Returns:
        The same paths, of all models that these are in; a model of which nothing is certain is left
        out, for its code need not be read.
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
        self._tests: dict[type, dict[int, Test | None]] = {}
        self._noted: dict[tuple[type, tuple[bool | None, ...]], NotedModule] = {}

    def noted(self, path: str, module: nn.Module) -> NotedModule:
        """What is known of a module."""
        kind = type(module)
        has_forward = kind.forward is not _NO_FORWARD
        if isinstance(module, _DROPOUTS) and module.p == 0:
            return NotedModule([], has_forward)  # it hands on what it is given
        steps = steps_of(kind)
        if steps is None:
            return NotedModule(None, has_forward)
        if kind not in self._tests:
            self._tests[kind] = {arm.number: arm.test for step in steps for arm in step.arms}
        numbers = self._tests[kind]
        holds = tuple(self._holds(path, test) for test in numbers.values())
        if (kind, holds) not in self._noted:
            known = dict(zip(numbers, holds, strict=True))
            left = [
                step
                for step in steps
                if not any(known[arm.number] is (not arm.side) for arm in step.arms)
            ]
            self._noted[kind, holds] = NotedModule(left, has_forward)
        return self._noted[kind, holds]

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
        value = _attribute(self._modules.get(below(path, owner)), name)
        if value is _UNKNOWN:
            return None
        is_plain = value is None or isinstance(value, (bool, int, float, str))
        if kind == "true":
            return bool(value) if is_plain else None
        if not is_plain:
            return kind == "!=" if rest[1] is None and kind != ">" else None
        if kind == ">":
            numbers = isinstance(value, (int, float)) and isinstance(rest[1], (int, float))
            return bool(value > rest[1]) if numbers else None
        return bool(value == rest[1]) is (kind == "==")


def _attribute(module: nn.Module | None, name: str) -> Any:
    """What a module holds under a name, without running any code of its class."""
    if module is not None:
        own = vars(module)
        for held in (own, own["_parameters"], own["_buffers"], own["_modules"]):
            if name in held:
                return held[name]
    return _UNKNOWN
