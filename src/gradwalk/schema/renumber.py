"""Renumber nodes and edges: replace every index of them in nested values."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Union

from .values import SomeOf, Whole

_NewIds = Mapping[str, Sequence[int]]
_Mapper = Callable[[Any, _NewIds], Any]


def renumbered(value: Any, expected: Any, places: _NewIds) -> Any:
    """Return a value with new indices. Parts without indices are shared with the given value.

    Example:
        >>> from gradwalk.schema.graph import RootModel
        >>> root = {"node": 1, "output_nr": 0, "name": None}
        >>> renumbered(root, RootModel, {"nodes": [4, 7]})
        {'node': 7, 'output_nr': 0, 'name': None}
    """
    mapper = _mapper(expected)
    return value if mapper is None else mapper(value, places)


@cache
def _mapper(expected: Any) -> _Mapper | None:
    """Return the function that renumbers a type; None for a type without indices."""
    origin, inner = typing.get_origin(expected), typing.get_args(expected)
    if typing.is_typeddict(expected):
        return _fields_mapper(expected)
    if origin is Annotated:
        word = inner[1]
        if isinstance(word, SomeOf):
            return _fields_mapper(word.whole)
        return _place_mapper(word.place_in) if isinstance(word, Whole) and word.place_in else None
    if origin in {Union, types.UnionType}:
        found = [mapper for each in inner if (mapper := _mapper(each)) is not None]
        if len(found) > 1:
            raise TypeError(f"{expected} has several choices with indices")
        return _optional_mapper(found[0]) if found else None
    each = _mapper(inner[-1]) if origin in {list, dict} else None
    if each is None:
        return None
    return _list_mapper(each) if origin is list else _dict_mapper(each)


def _fields_mapper(expected: Any) -> _Mapper | None:
    hints = typing.get_type_hints(expected, include_extras=True)
    fields = {name: mapper for name, kind in hints.items() if (mapper := _mapper(kind)) is not None}
    if not fields:
        return None

    def fields_mapped(value: Any, places: _NewIds) -> Any:
        own = {name: fields[name](value[name], places) for name in fields if name in value}
        return {**value, **own} if own else value

    return fields_mapped


def _place_mapper(place_in: str) -> _Mapper:
    return lambda value, places: places[place_in][value]


def _optional_mapper(inner: _Mapper) -> _Mapper:
    return lambda value, places: None if value is None else inner(value, places)


def _list_mapper(inner: _Mapper) -> _Mapper:
    return lambda value, places: [inner(each, places) for each in value]


def _dict_mapper(inner: _Mapper) -> _Mapper:
    return lambda value, places: {name: inner(each, places) for name, each in value.items()}
