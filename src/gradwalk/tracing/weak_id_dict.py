"""A dictionary by identity whose entries are deleted when their key dies."""

from __future__ import annotations

import weakref
from typing import Any


class _Reference(weakref.ref[Any]):
    """Knows its key; faster to make than `weakref.KeyedRef`."""

    __slots__ = ("key",)

    key: int


entries: dict[int, tuple[weakref.ref[Any], Any]] = {}
"""A reference and a value by the id of the object; to be read only.

An entry is deleted before the object's id can be used again.
"""


def put(thing: Any, value: Any) -> weakref.ref[Any]:
    """Store one value for an object for as long as it lives, in place of any earlier one.

    Returns:
        A weak reference to the object.
    """
    reference = _Reference(thing, _forget)
    reference.key = key = id(thing)
    entries[key] = reference, value
    return reference


def get(thing: Any) -> Any:
    """Return the value stored for an object; None if there is none."""
    found = entries.get(id(thing))
    return None if found is None else found[1]


def _forget(reference: _Reference) -> None:
    found = entries.get(reference.key)
    if found is not None and found[0] is reference:  # the id may belong to a new object
        del entries[reference.key]
