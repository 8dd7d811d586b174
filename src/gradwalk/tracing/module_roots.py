"""The names of the outermost modules that ran."""

from __future__ import annotations

from collections.abc import Iterable

from ..graph.names import Names
from ..graph.names import below as joined
from .annotations import Annotation
from .module_path import ModuleCall


class ModuleRoots:
    """The names of the outermost modules.

    If one variable holds all of them, paths leave out its name. So a path in a called model starts
    inside it, and a path in ``agent.actor(x)`` starts with "actor". Modules that no variable holds
    get their class and a number.

    Example::

        >>> ModuleRoots([], Names()).name_of(None)
        ''
    """

    def __init__(self, annotations: Iterable[Annotation], names: Names) -> None:
        # Python makes one weak reference per module, so its id identifies even a deleted module.
        self._held = {id(each.outermost): each for each in annotations if each.outermost}
        found: dict[int, tuple[str, str] | None] = {}
        for key, annotation in self._held.items():
            module = annotation.outermost() if annotation.outermost is not None else None
            found[key] = names.place_of(module) if module is not None else None
        variables = {place[0] for place in found.values() if place is not None}
        is_one = len(variables) == 1 and None not in found.values()
        # The variable that paths leave out; "" for none.
        self.variable = next(iter(variables)) if is_one else ""
        self._names: dict[int, str] = {}
        for key, place in found.items():
            if place is None:
                self._names[key] = self._nameless(key) if len(found) > 1 else ""
            else:
                variable, path = place
                self._names[key] = path[len(variable) :].lstrip(".") if is_one else path

    def name_of(self, call: ModuleCall | Annotation | None) -> str:
        """Return the name of a call's outermost module; "" if paths start inside it."""
        return "" if call is None else self._names.get(id(call.outermost), "")

    def path_of(self, call: ModuleCall) -> str:
        """Return a module's path with the name of its outermost module."""
        return joined(self.name_of(call), call.path)

    def qualified(self, annotation: Annotation) -> Annotation:
        """Return an annotation with these names in its paths."""
        name = self.name_of(annotation)
        if not name or annotation.module is None:
            return annotation
        return annotation._replace(
            module=joined(name, annotation.module),
            modules=tuple((joined(name, path), kind) for path, kind in annotation.modules),
        )

    def _nameless(self, key: int) -> str:
        kind = self._held[key].module_root
        taken = sum(name.startswith(f"({kind}") for name in self._names.values())
        return f"({kind} {taken + 1})" if taken else f"({kind})"
