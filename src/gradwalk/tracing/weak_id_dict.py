"""What is known about tensors and arrays, forgotten when they die."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any


class _Reference(weakref.ref[Any]):
    """Knows where its fact stands; `weakref.KeyedRef` does too, and takes longer to make."""

    __slots__ = ("key",)

    key: int


_facts: dict[int, tuple[_Reference, Any]] = {}


def note(thing: Any, fact: Any) -> None:
    """Remember one fact about an object, in place of any earlier one.

    Args:
        thing: A tensor or an array; it is compared by identity and not kept alive.
        fact: What to remember; it is kept as long as ``thing`` lives.
    """
    key = id(thing)
    reference = _Reference(thing, _forget)
    reference.key = key
    _facts[key] = reference, fact


def fact(thing: Any) -> Any:
    """What was noted about an object; None for nothing."""
    found = _facts.get(id(thing))
    return found[1] if found is not None and found[0]() is thing else None


def known() -> Iterator[tuple[Any, Any]]:
    """The (object, fact) pairs of objects that live."""
    for reference, noted in list(_facts.values()):
        thing = reference()
        if thing is not None:
            yield thing, noted


def _forget(reference: _Reference) -> None:
    found = _facts.get(reference.key)
    if found is not None and found[0] is reference:  # the id may serve another object by now
        del _facts[reference.key]
