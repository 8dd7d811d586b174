"""Whether plain values are what the wire format says: of its types, and within its bounds."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union

from .values import Nested, SomeOf, Whole, Written

_DEEPEST = 80  # torch's tensors have at most 64 dimensions
_LONGEST_NUMBER = 100  # characters of a number that is written as text
_LARGEST = 2**64  # no whole number of torch's is larger; a browser takes it as a float

_PLAIN = (bool, int, float, str)

_Sizes = Mapping[str, int]
_Check = Callable[[Any, _Sizes], None]


class _Wrong(ValueError):  # noqa: N818  only ever seen as the ValueError of `check`
    """What is wrong with a value; ``path`` grows on the way out, from the innermost part."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path: list[str] = []


def check(value: Any, expected: Any, where: str, sizes: _Sizes | None = None) -> None:
    """Check values against a type, all the way down.

    Args:
        value: Plain JSON values.
        expected: A ``TypedDict``, a list or dict of types, a union, a ``Literal``, a plain type, or
            one of those annotated with a word of `gradwalk.wire.values`.
        where: What to call the value, for the error: "the file".
        sizes: How many there are of "nodes" and what else `gradwalk.wire.values.Whole` names;
            places in a list that is not among them are not compared with anything.

    Raises:
        ValueError: A value is of another type, out of bounds, or nested too deeply; the message
            says where.
    """
    try:
        _checker(expected)(value, sizes or {})
    except _Wrong as wrong:
        raise ValueError(f"{where}{''.join(reversed(wrong.path))} {wrong}") from None


@cache
def _checker(expected: Any) -> _Check:
    """What checks a type; made once for each."""
    origin, inner = typing.get_origin(expected), typing.get_args(expected)
    if typing.is_typeddict(expected):
        return _fields_checker(expected, expected.__required_keys__)
    if origin is Annotated:
        return _annotated_checker(inner[0], inner[1])
    if origin is Literal:
        return _literal_checker(inner)
    if origin in {Union, types.UnionType}:
        return _union_checker(inner)
    if origin is list:
        return _list_checker(inner[0])
    if origin is dict:
        return _dict_checker(inner[1])
    if expected not in {bool, int, float, str, types.NoneType}:
        raise TypeError(f"{expected} has nothing that could be checked")
    return _plain_checker(expected)


def _plain_checker(kind: type) -> _Check:
    def check_plain(value: Any, _: _Sizes) -> None:
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise _Wrong(f"is {_shown(value)} rather than of type {kind.__name__}")
        if type(value) is int and not -_LARGEST <= value < _LARGEST:
            raise _Wrong("is a number of more than 64 bits")

    return check_plain


def _literal_checker(values: tuple[Any, ...]) -> _Check:
    def check_literal(value: Any, _: _Sizes) -> None:
        if type(value) is not str or value not in values:
            raise _Wrong(f"is {_shown(value)}, which is none of its values")

    return check_literal


def _union_checker(choices: tuple[Any, ...]) -> _Check:
    *first, last = (_checker(each) for each in choices if each is not types.NoneType)
    is_optional = types.NoneType in choices
    # Most values are numbers and texts, whose type says which choice they are.
    plain = {each: _checker(each) for each in choices if each in _PLAIN}

    def check_union(value: Any, sizes: _Sizes) -> None:
        if value is None and is_optional:
            return
        known = plain.get(type(value))
        if known is not None:
            known(value, sizes)
            return
        for each in first:
            try:
                each(value, sizes)
            except _Wrong:
                continue
            return
        last(value, sizes)

    return check_union


def _list_checker(inner: Any) -> _Check:
    check_each = _checker(inner)

    def check_list(value: Any, sizes: _Sizes) -> None:
        if type(value) is not list:
            raise _Wrong(f"is {_shown(value)} rather than a list")
        done = 0
        try:
            for each in value:
                check_each(each, sizes)
                done += 1
        except _Wrong as wrong:
            wrong.path.append(f"[{done}]")
            raise

    return check_list


def _dict_checker(inner: Any) -> _Check:
    check_each = _checker(inner)

    def check_dict(value: Any, sizes: _Sizes) -> None:
        if type(value) is not dict:
            raise _Wrong(f"is {_shown(value)} rather than a record")
        done = 0
        try:
            for each in value.values():
                check_each(each, sizes)
                done += 1
        except _Wrong as wrong:
            wrong.path.append(f".{_shortened(repr([*value][done])[1:-1])}")
            raise

    return check_dict


def _fields_checker(expected: Any, required: frozenset[str]) -> _Check:
    hints = typing.get_type_hints(expected, include_extras=True)
    fields = {name: _checker(kind) for name, kind in hints.items()}

    def check_fields(value: Any, sizes: _Sizes) -> None:
        if type(value) is not dict:
            raise _Wrong(f"is {_shown(value)} rather than a record")
        for name in required:
            if name not in value:
                raise _Wrong(f"lacks {name!r}")
        if not value.keys() <= fields.keys():
            unknown = next(name for name in value if name not in fields)
            raise _Wrong(f"has {_shown(unknown)}, which is unknown")
        name = ""
        try:
            for name, each in value.items():
                fields[name](each, sizes)
        except _Wrong as wrong:
            wrong.path.append(f".{name}")
            raise

    return check_fields


def _annotated_checker(plain: Any, word: Any) -> _Check:
    if isinstance(word, SomeOf):
        return _fields_checker(word.whole, frozenset())
    if isinstance(word, Nested):
        return _nested_checker(word.kinds)
    check_kind = _checker(plain)
    if isinstance(word, Whole):
        place_in = word.place_in

        def check_whole(value: Any, sizes: _Sizes) -> None:
            check_kind(value, sizes)
            limit = sizes.get(place_in, _LARGEST) if place_in is not None else _LARGEST
            if not 0 <= value < limit:
                among = f" {limit} {place_in}" if limit < _LARGEST else " numbers from 0"
                raise _Wrong(f"is {value}, which is none of the{among}")

        return check_whole
    assert isinstance(word, Written)
    read = word.number

    def check_written(value: Any, sizes: _Sizes) -> None:
        check_kind(value, sizes)
        if type(value) is str:
            try:
                read(value if len(value) <= _LONGEST_NUMBER else "")
            except ValueError:
                raise _Wrong(f"is {_shown(value)}, which is no number") from None

    return check_written


def _nested_checker(kinds: frozenset[type]) -> _Check:
    def check_nested(value: Any, _: _Sizes) -> None:
        waiting = [(value, 0)]
        while waiting:
            inner, depth = waiting.pop()
            if depth > _DEEPEST:
                raise _Wrong(f"is nested more than {_DEEPEST} levels deep")
            if type(inner) is list:
                waiting += [(each, depth + 1) for each in inner]
            elif type(inner) not in kinds:
                raise _Wrong(f"holds {_shown(inner)}, which is no such value")
            elif type(inner) is int and not -_LARGEST <= inner < _LARGEST:
                raise _Wrong("holds a number of more than 64 bits")

    return check_nested


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return type(value).__name__
    if type(value) is int and abs(value) >= _LARGEST:
        return "a number of more than 64 bits"
    return _shortened(repr(value))


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
