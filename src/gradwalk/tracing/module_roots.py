"""What to call the modules that ran outermost, so that those of two networks stay apart."""

from __future__ import annotations

from collections.abc import Iterable

from ..graph.names import Names
from .annotations import Annotation
from .module_path import ModuleCall


class Roots:
    """What the modules that ran outermost are called.

    When one variable holds all of them, its name is left out: of a model that was called itself all
    paths begin within it, and of ``agent.actor(x)`` and ``agent.critic(x)`` with "actor" and
    "critic". Two that no variable holds are told apart by their class and a number.

    Example::

        >>> Roots([], Names()).name_of(None)
        ''
    """

    def __init__(self, annotations: Iterable[Annotation], names: Names) -> None:
        """Name the outermost modules of some calls.

        Args:
            annotations: What was seen of the calls.
            names: What the user calls modules.
        """
        # Python makes one weak reference per module, so its id tells modules apart, gone ones too.
        self._held = {id(each.outermost): each for each in annotations if each.outermost}
        found: dict[int, tuple[str, str] | None] = {}
        for key, annotation in self._held.items():
            module = annotation.outermost() if annotation.outermost is not None else None
            found[key] = names.place_of(module) if module is not None else None
        variables = {place[0] for place in found.values() if place is not None}
        is_one = len(variables) == 1 and None not in found.values()
        self._names: dict[int, str] = {}
        for key, place in found.items():
            if place is None:
                self._names[key] = self._nameless(key) if len(found) > 1 else ""
            else:
                variable, path = place
                self._names[key] = path[len(variable) :].lstrip(".") if is_one else path

    def name_of(self, call: ModuleCall | Annotation | None) -> str:
        """What the outermost module of a call is called; "" where paths begin within it."""
        return "" if call is None else self._names.get(id(call.outermost), "")

    def path_of(self, call: ModuleCall) -> str:
        """The path of a module from the names of the outermost ones."""
        return _joined(self.name_of(call), call.path)

    def rooted(self, annotation: Annotation) -> Annotation:
        """An annotation whose modules are called so."""
        name = self.name_of(annotation)
        if not name or annotation.module is None:
            return annotation
        return annotation._replace(
            module=_joined(name, annotation.module),
            modules=tuple((_joined(name, path), kind) for path, kind in annotation.modules),
        )

    def _nameless(self, key: int) -> str:
        kind = self._held[key].module_root
        taken = sum(name.startswith(f"({kind}") for name in self._names.values())
        return f"({kind} {taken + 1})" if taken else f"({kind})"


def _joined(name: str, path: str) -> str:
    return ".".join(filter(None, (name, path)))
