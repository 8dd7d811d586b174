"""Result classes, whose constructors refuse, and methods that remember their results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from inspect import Signature
from typing import Any, ParamSpec, TypeVar

_T = TypeVar("_T")
_P = ParamSpec("_P")


def returned_by(call: str) -> Callable[[type[_T]], type[_T]]:
    """Make the constructor of a class refuse and name the call to use; `make` still works."""

    def decorate(kind: type[_T]) -> type[_T]:
        def refuse(*_: object, **__: object) -> None:
            raise TypeError(f"{kind.__name__}() makes nothing. Call {call}, which returns one.")

        refuse.__doc__ = f"Refuse: ``{call}`` makes it.\n\nRaises:\n    TypeError: Always."
        refuse.__name__, refuse.__qualname__ = "__init__", f"{kind.__qualname__}.__init__"
        result: Any = kind
        result._fill = kind.__init__
        result.__init__ = refuse
        result.__signature__ = Signature()
        return kind

    return decorate


def make(kind: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Make an instance of a class whose constructor refuses."""
    result: Any = kind
    made: Any = result.__new__(result)
    made._fill(*args, **kwargs)
    return made  # type: ignore[no-any-return]


def replaced(result: _T, /, **changes: object) -> _T:
    """Return a copy of a result that is a dataclass, with other values for some fields."""
    given: Any = result
    return make(type(given), **{f.name: getattr(given, f.name) for f in fields(given)} | changes)  # type: ignore[no-any-return]


def remembered(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a method keep its result for each set of positional arguments in its object."""
    name = f"_results_of_{method.__name__}"

    @functools.wraps(method)
    def look_up(self: Any, *key: Any) -> Any:
        known = vars(self).setdefault(name, {})
        if key not in known:
            known[key] = method(self, *key)  # type: ignore[call-arg]
        return known[key]

    return look_up  # type: ignore[return-value]
