"""Check plain values against the types and bounds of the schema, and renumber indices in them."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal, Union

from .values import Nested, SomeOf, Whole, Written

_DEEPEST = 80  # a tensor has at most 64 dimensions
_LONGEST_NUMBER = 100  # characters of a number that is written as text
_LARGEST = 2**64  # no integer of torch is larger; a browser reads it as a float

_PLAIN = (bool, int, float, str)

_Sizes = Mapping[str, int]
_Check = Callable[[Any, _Sizes], None]
"""Raises `_Wrong` for a value of another type, with the path within it."""


class _Wrong(ValueError):  # noqa: N818  only ever seen as the ValueError of `check`
    """A wrong value; ``path`` grows from its innermost part outwards."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path: list[str] = []


def check_version(version: Any, oldest: int, newest: int, where: str) -> None:
    """Raise ValueError, with a whole sentence, for a version that this program does not read."""
    if type(version) is int and oldest <= version <= newest:
        return
    reads = f"version {newest}" if oldest == newest else f"versions {oldest} to {newest}"
    is_newer = type(version) is int and version > newest
    raise ValueError(
        f"{where} has version {version!r} of the file format, but this gradwalk reads {reads}. "
        + (
            "Update gradwalk to open it."
            if is_newer
            else "Open it with the gradwalk that wrote it, or save the graph again with this one."
        )
    )


def check(value: Any, expected: Any, where: str, sizes: _Sizes | None = None) -> None:
    """Check values against a type, all the way down, in place.

    Unknown fields are removed. A missing field gets its default: None where its type allows None,
    else an empty list for a list and False for a flag.

    ``expected``: a ``TypedDict``, a list or dict of types, a union, a ``Literal``, a plain type, or
    one of those annotated with a mark of `gradwalk.schema.values`. ``sizes``: the length of each
    list that `gradwalk.schema.values.Whole` names; indices of other lists are not checked.
    """
    try:
        _checker(expected)(value, sizes or {})
    except _Wrong as wrong:
        raise ValueError(f"{where}{''.join(reversed(wrong.path))} {wrong}") from None


@cache
def _checker(expected: Any) -> _Check:
    origin, inner = typing.get_origin(expected), typing.get_args(expected)
    if typing.is_typeddict(expected):
        return _record_check(expected)
    if origin is Annotated:
        return _annotated_check(inner[0], inner[1])
    if origin is Literal:
        return _literal_check(inner)
    if origin in {Union, types.UnionType}:
        return _union_check(inner)
    if origin is list:
        return _list_check(inner[0])
    if origin is dict:
        return _dict_check(inner[1])
    if expected not in {bool, int, float, str, types.NoneType}:
        raise TypeError(f"{expected} is not a type that can be checked")
    return _plain_check(expected)


def _plain_check(kind: type) -> _Check:
    def check_plain(value: Any, _: _Sizes) -> None:
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise _Wrong(f"is {_shown(value)} rather than of type {kind.__name__}")
        if type(value) is int and not -_LARGEST <= value < _LARGEST:
            raise _Wrong("is a number of more than 64 bits")

    return check_plain


def _literal_check(values: tuple[Any, ...]) -> _Check:
    def check_literal(value: Any, _: _Sizes) -> None:
        if type(value) is not str or value not in values:
            raise _Wrong(f"is {_shown(value)}, which is none of its values")

    return check_literal


def _union_check(choices: tuple[Any, ...]) -> _Check:
    *first, last = (_checker(each) for each in choices if each is not types.NoneType)
    is_optional = types.NoneType in choices
    # The type of a number or text selects its choice.
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


def _list_check(inner: Any) -> _Check:
    check_each = _checker(inner)

    def check_list(value: Any, sizes: _Sizes) -> None:
        if type(value) is not list:
            raise _Wrong(f"is {_shown(value)} rather than a list")
        _check_all(value, check_each, sizes, "[{}]".format)

    return check_list


def _dict_check(inner: Any) -> _Check:
    check_each = _checker(inner)

    def check_dict(value: Any, sizes: _Sizes) -> None:
        if type(value) is not dict:
            raise _Wrong(f"is {_shown(value)} rather than a record")
        name = partial(_name_of, value)
        _check_all(value.values(), check_each, sizes, name)

    return check_dict


def _name_of(record: dict[str, Any], place: int) -> str:
    return f".{_shortened(repr([*record][place])[1:-1])}"


def _check_all(
    values: Iterable[Any], check: _Check, sizes: _Sizes, name: Callable[[int], str]
) -> None:
    """Check values; an error names the place of the first wrong one."""
    done = 0
    try:
        for each in values:
            check(each, sizes)
            done += 1
    except _Wrong as wrong:
        wrong.path.append(name(done))
        raise


def fill_in(record: dict[str, Any], expected: Any) -> None:
    """Give the missing fields of a record their defaults."""
    missing = expected.__required_keys__ - record.keys()
    for name in filter(missing.__contains__, expected.__annotations__):  # always in this order
        default = _defaults(expected).get(name)
        if default is None:
            raise _Wrong(f"lacks {name!r}")
        record[name] = default()


@cache
def _defaults(expected: Any) -> dict[str, type]:
    """Return the type of the default of each field that may be missing."""
    hints = typing.get_type_hints(expected, include_extras=True)
    found = {name: _default(hints[name]) for name in expected.__required_keys__}
    return {name: default for name, default in found.items() if default is not None}


def _default(kind: Any) -> type | None:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _default(inner[0])
    if types.NoneType in inner:
        return types.NoneType
    return list if origin is list else bool if kind is bool else None


def _record_check(expected: Any, *, is_partial: bool = False) -> _Check:
    """Return the check of a TypedDict, or of a part of one."""
    hints = typing.get_type_hints(expected, include_extras=True)
    fields = {name: _checker(kind) for name, kind in hints.items()}

    def check_record(value: Any, sizes: _Sizes) -> None:
        if type(value) is not dict:
            raise _Wrong(f"is {_shown(value)} rather than a record")
        if not is_partial:
            fill_in(value, expected)
        for name in value.keys() - fields.keys():
            del value[name]
        name = ""
        try:
            for name, inner in value.items():
                fields[name](inner, sizes)
        except _Wrong as wrong:
            wrong.path.append(f".{name}")
            raise

    return check_record


def _annotated_check(plain: Any, mark: Any) -> _Check:
    if isinstance(mark, SomeOf):
        return _record_check(mark.whole, is_partial=True)
    if isinstance(mark, Nested):
        return _nested_check(mark.kinds)
    check_kind = _checker(plain)
    if isinstance(mark, Whole):
        place_in = mark.place_in

        def check_whole(value: Any, sizes: _Sizes) -> None:
            check_kind(value, sizes)
            limit = sizes.get(place_in, _LARGEST) if place_in is not None else _LARGEST
            if not 0 <= value < limit:
                among = f" {limit} {place_in}" if limit < _LARGEST else " numbers from 0"
                raise _Wrong(f"is {value}, which is none of the{among}")

        return check_whole
    assert isinstance(mark, Written)
    read = mark.number

    def check_written(value: Any, sizes: _Sizes) -> None:
        check_kind(value, sizes)
        if type(value) is str:
            try:
                read(value if len(value) <= _LONGEST_NUMBER else "")
            except ValueError:
                raise _Wrong(f"is {_shown(value)}, which is not a number") from None

    return check_written


def _nested_check(kinds: frozenset[type]) -> _Check:
    def check_nested(value: Any, _: _Sizes) -> None:
        waiting = [(value, 0)]
        while waiting:
            inner, depth = waiting.pop()
            if depth > _DEEPEST:
                raise _Wrong(f"is nested more than {_DEEPEST} levels deep")
            if type(inner) is list:
                waiting += [(each, depth + 1) for each in inner]
            elif type(inner) not in kinds:
                raise _Wrong(f"holds {_shown(inner)}, which is not allowed there")
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
        name = word.place_in if isinstance(word, Whole) else None
        return (lambda place, places: places[name][place]) if name else None
    if origin in {Union, types.UnionType}:
        found = [mapper for each in inner if (mapper := _mapper(each)) is not None]
        if len(found) > 1:
            raise TypeError(f"{expected} has several choices with indices")
        one = found[0] if found else None
        return one and (lambda value, places: None if value is None else one(value, places))
    each = _mapper(inner[-1]) if origin in {list, dict} else None
    if each is None:
        return None
    if origin is list:
        return lambda values, places: [each(value, places) for value in values]
    return lambda values, places: {name: each(value, places) for name, value in values.items()}


def _fields_mapper(expected: Any) -> _Mapper | None:
    hints = typing.get_type_hints(expected, include_extras=True)
    fields = {name: mapper for name, kind in hints.items() if (mapper := _mapper(kind)) is not None}
    if not fields:
        return None

    def fields_mapped(value: Any, places: _NewIds) -> Any:
        own = {name: fields[name](value[name], places) for name in fields if name in value}
        return {**value, **own} if own else value

    return fields_mapped
