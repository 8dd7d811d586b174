"""A change of the fields of a saved file raises the version of its format."""

from __future__ import annotations

import hashlib
import json
import types
import typing
from typing import Annotated, Any, Literal, Union

import pytest

from gradwalk.schema.file_format import VERSION, SavedGraphModel
from gradwalk.schema.ranks import RANK_VERSION, RankModel
from gradwalk.schema.values import Nested, SomeOf

FIELDS = {
    ("VERSION", 18): "f05976e19e1910a5",
    ("VERSION", 19): "2547ec06b9b31642",
    ("VERSION", 20): "2547ec06b9b31642",  # numbers of float32 as text
    ("RANK_VERSION", 6): "23ed9e0aa8e19658",
}
"""Version of the format -> the hash of its fields. The older versions stay, as a record."""


def fields_of(kind: Any, known: dict[str, Any]) -> Any:
    """A type in plain values, without docstrings; ``known``: TypedDict -> its fields."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if typing.is_typeddict(kind):
        if kind.__name__ not in known:
            fields = known[kind.__name__] = {}
            needed = kind.__required_keys__
            for name, each in typing.get_type_hints(kind, include_extras=True).items():
                fields[name] = [name in needed, fields_of(each, known)]
        return kind.__name__
    if origin is Annotated:
        return [fields_of(inner[0], known), _mark(inner[1], known)]
    if origin is Literal:
        return sorted(map(repr, inner))
    if origin in {Union, types.UnionType}:
        return sorted((fields_of(each, known) for each in inner), key=json.dumps)
    if origin is not None:
        return [origin.__name__, *(fields_of(each, known) for each in inner)]
    return kind.__name__


def _mark(mark: Any, known: dict[str, Any]) -> Any:
    if isinstance(mark, SomeOf):
        return fields_of(mark.whole, known)
    if isinstance(mark, Nested):
        return sorted(kind.__name__ for kind in mark.kinds)
    return repr(mark)


def hash_of(kind: Any) -> str:
    known: dict[str, Any] = {}
    fields_of(kind, known)
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("name", "version", "kind", "file"),
    [
        ("VERSION", VERSION, SavedGraphModel, "file_format.py"),
        ("RANK_VERSION", RANK_VERSION, RankModel, "ranks.py"),
    ],
)
def test_a_change_of_the_fields_raises_the_version(name, version, kind, file):
    found = hash_of(kind)
    if found == FIELDS.get((name, version)):
        return
    new = version + ((name, version) in FIELDS)
    pytest.fail(
        f"The fields of a saved file changed, and {name} is {version}. Set {name} = {new} in "
        f"src/gradwalk/schema/{file} (and raise OLDEST_{name} if a new field has no default), and "
        f'add ("{name}", {new}): "{found}" to FIELDS in tests/schema/test_version_raised.py.'
    )


def test_the_hash_sees_fields_types_and_choices_but_no_words_and_no_order():
    class Inner(typing.TypedDict):
        one: int

    def made(name: str = "Outer", **fields: Any) -> str:
        return hash_of(typing.TypedDict(name, fields))  # type: ignore[operator]

    first = made(a=int, b=list[Inner])
    assert made(b=list[Inner], a=int) == first
    others = [
        made(a=int),
        made(a=int | None, b=list[Inner]),
        made(a=int, b=list[Inner], c=str),
        made(a=Literal["x"], b=list[Inner]),
        made(a=Literal["x", "y"], b=list[Inner]),
    ]
    assert len({first, *others}) == 6
