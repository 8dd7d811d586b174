"""The values that a program's variables hold: items of containers, attributes, closures.

Only what is already there is read: no property, no ``__getattr__`` and no user's ``__dict__`` runs.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from types import FunctionType, GetSetDescriptorType, ModuleType
from typing import Any

import torch

Place = tuple[str, Any]
"""Where a value is, as Python code ("trainer.model"), and the value."""

NAMED = (torch.Tensor, torch.nn.Module)
"""What gets a name."""

# A container with more items than this is data, not a handful of named tensors.
_MOST_ITEMS = 1000
_MOST_READ = 10_000  # attributes, of all objects together
_DEEPEST = 7  # containers and objects, one in another
# Objects of these packages hold the notebook, the graph, or torch's own state (GradScaler).
_MACHINERY = frozenset({"torch", "gradwalk", "IPython", "ipykernel", "ipywidgets", "traitlets"})
_NO_OBJECTS = (*NAMED, ModuleType, type)
_CLASS_DICT = type.__dict__["__dict__"]


def items_in(name: str, value: Any) -> Iterator[Place]:
    """Yield the items of a list, a tuple or a dict, and their places."""
    if type(value) in (list, tuple) and len(value) <= _MOST_ITEMS:
        yield from ((f"{name}[{i}]", item) for i, item in enumerate(value))
    elif type(value) in (dict, OrderedDict) and len(value) <= _MOST_ITEMS:
        for key, item in list(value.items()):
            # The repr of a key may raise, and the repr of a tensor is slow.
            with contextlib.suppress(Exception):
                if isinstance(item, NAMED) and not isinstance(key, NAMED):
                    yield f"{name}[{key!r}]", item


def attributes_in(variables: Iterable[Place]) -> Iterator[Place]:
    """Yield the places within one or two attributes of variables: "self.model", "run.state.net".

    The variables in a function's closure keep their names, each name once. Containers are
    read in the first attribute only.
    """
    left = _MOST_READ
    nearest, seen = list(variables), set[int]()
    names = {name for name, _ in nearest}
    for is_first in (True, False):
        further: list[Place] = []
        for name, value in nearest:
            if id(value) in seen:
                continue
            seen.add(id(value))
            for place, each in _attributes(name, value):
                left -= 1
                if left < 0:
                    return
                if place in names:
                    continue
                names.add(place)
                yield place, each
                if is_first:
                    yield from items_in(place, each)
                    further.append((place, each))
        nearest = further


def objects_in(variables: Iterable[Place]) -> tuple[list[Place], set[int]]:
    """Find what the objects of containers hold, such as own layers: "layers[0].weight".

    Returns the places, nearest first, and the ``id`` of each object that is in a container.
    """
    level, seen = list(variables), set[int]()
    found: list[Place] = []
    listed: set[int] = set()
    left = _MOST_READ
    for _ in range(_DEEPEST):
        further: list[Place] = []
        for name, value in level:
            if id(value) in seen:
                continue
            seen.add(id(value))
            entries = _entries(name, value)
            for place, each in _attributes(name, value) if entries is None else entries:
                left -= 1
                if left < 0:
                    return found, listed
                if issubclass(type(each), NAMED):
                    found.append((place, each))
                    continue
                further.append((place, each))
                if entries is not None and _is_object(each):
                    listed.add(id(each))
        level = further
    return found, listed


def _entries(name: str, value: Any) -> list[Place] | None:
    """The items of a list, a tuple or a dict; None for another value, none of a large one."""
    if type(value) not in (list, tuple, dict):
        return None
    if len(value) > _MOST_ITEMS:
        return []
    keys = list(value.items()) if type(value) is dict else enumerate(value)
    return [(f"{name}[{key!r}]", each) for key, each in keys if type(key) in (int, str)]


def _is_object(value: Any) -> bool:
    """Whether a value is an object of a class that the program wrote."""
    kind = type(value)  # isinstance() would run code of the user's class
    return kind.__module__ != "builtins" and not issubclass(kind, _NO_OBJECTS)


def _attributes(name: str, value: Any) -> list[Place]:
    kind = type(value)
    if kind is FunctionType:
        return _closure(value)
    if issubclass(kind, _NO_OBJECTS) or str(kind.__module__).partition(".")[0] in _MACHINERY:
        return []
    own = next((each for each in map(_dict_of, kind.__mro__) if each is not None), None)
    if type(own) is not GetSetDescriptorType:  # it has none, or one that runs code
        return []
    held = object.__getattribute__(value, "__dict__")
    if type(held) is not dict or len(held) > _MOST_ITEMS:
        return []
    return [(f"{name}.{key}", each) for key, each in held.items() if type(key) is str]


def _dict_of(kind: type) -> Any:
    return _CLASS_DICT.__get__(kind).get("__dict__")


def _closure(function: FunctionType) -> list[Place]:
    found: list[Place] = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # a variable that has no value yet
            found.append((name, cell.cell_contents))
    return found
