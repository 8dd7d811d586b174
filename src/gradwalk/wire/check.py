"""Whether plain values are of the types that the wire format names."""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Any, Literal, Union

_DEEPEST = 80  # torch's tensors have at most 64 dimensions


def check(value: Any, expected: Any, where: str) -> None:
    """Check values against a type, all the way down.

    Args:
        value: Plain JSON values.
        expected: A ``TypedDict``, a list or dict of types, a union, a ``Literal``, a plain type,
            or ``Any``.
        where: What to call the value, for the error: "nodes".

    Raises:
        ValueError: A value is of another type, or nested too deeply; the message says where.
    """
    origin, inner = typing.get_origin(expected), typing.get_args(expected)
    if expected is Any:
        _check_depth(value, where)
    elif typing.is_typeddict(expected):
        _check_fields(value, expected, where)
    elif origin is Literal:
        if type(value) is not str or value not in inner:
            raise ValueError(f"{where} is {_shown(value)}, which is none of its values")
    elif origin in {Union, types.UnionType}:
        _check_union(value, inner, where)
    elif origin in {list, dict}:
        _check_items(value, origin, inner[-1], where)
    elif type(value) is not expected and not (expected is float and type(value) is int):
        raise ValueError(f"{where} is {_shown(value)} rather than of type {expected.__name__}")


def _check_items(value: Any, kind: Any, inner: Any, where: str) -> None:
    if type(value) is not kind:
        noun = "list" if kind is list else "record"
        raise ValueError(f"{where} is {_shown(value)} rather than a {noun}")
    if kind is list:
        for i, each in enumerate(value):
            check(each, inner, f"{where}[{i}]")
    else:
        for name, each in value.items():
            check(each, inner, f"{where}.{name}")


@cache
def _fields(expected: Any) -> dict[str, Any]:
    return typing.get_type_hints(expected)


def _check_fields(value: Any, expected: Any, where: str) -> None:
    if type(value) is not dict:
        raise ValueError(f"{where} is {_shown(value)} rather than a record")
    fields = _fields(expected)
    for name, kind in fields.items():
        if name not in value:
            raise ValueError(f"{where} lacks {name!r}")
        check(value[name], kind, f"{where}.{name}")
    for name in value:
        if name not in fields:
            raise ValueError(f"{where} has {_shown(name)}, which is unknown")


def _check_union(value: Any, choices: tuple[Any, ...], where: str) -> None:
    if value is None and type(None) in choices:
        return
    others = [choice for choice in choices if choice is not type(None)]
    for choice in others[:-1]:
        try:
            check(value, choice, where)
        except ValueError:
            continue
        return
    check(value, others[-1], where)


def _check_depth(value: Any, where: str) -> None:
    waiting = [(value, 0)]
    while waiting:
        inner, depth = waiting.pop()
        if depth > _DEEPEST:
            raise ValueError(f"{where} is nested more than {_DEEPEST} levels deep")
        if isinstance(inner, dict):
            waiting += [(each, depth + 1) for each in inner.values()]
        elif isinstance(inner, list):
            waiting += [(each, depth + 1) for each in inner]


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, (dict, list)) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}..."
