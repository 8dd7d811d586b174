"""Hooks: the places where features add to the core, which imports no feature.

A core module declares a hook and iterates over it. A feature adds to hooks in its `plugin.py`, and
is gone when its folder is deleted.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Hook(Generic[_T]):
    """What features add at one place of the core, in the order of the features' names."""

    def __init__(self) -> None:
        self._added: list[_T] = []

    def add(self, part: _T) -> _T:
        """Add a function or an object; returns it, so that it works as a decorator."""
        self._added.append(part)
        return part

    def __iter__(self) -> Iterator[_T]:
        load_features()
        return iter(self._added)

    def first(self) -> _T | None:
        """Return what was added first; None without any."""
        return next(iter(self), None)


@functools.cache
def load_features() -> None:
    """Import the `plugin.py` of each feature, once: when a hook is first used."""
    package = importlib.import_module("gradwalk.features")
    for found in pkgutil.iter_modules(package.__path__, "gradwalk.features."):
        path = getattr(importlib.import_module(found.name), "__path__", ())
        if any(each.name == "plugin" for each in pkgutil.iter_modules(path)):
            importlib.import_module(f"{found.name}.plugin")
