"""Encode and decode models: records as columns, in JSON, compressed with gzip.

A list of records with the same fields is written as one list per field, under an empty name:
``[{"id": 0, "op": "a"}, {"id": 1, "op": "b"}]`` becomes ``{"": {"id": 0, "op": ["a", "b"]}}``.
Columns of similar values compress well. A first column of consecutive integers is written as its
first number. Other columns of integers are written as ``{"+": [...]}`` where that is shorter: the
first number, then the difference of each to the one before it. New fields need no change here.

A dict or list that is at several places may be written once, and so may equal lists of floats. The
outermost dict then has a list of such values under the empty name. ``{"": 3}`` stands for the
fourth of them, and ``{"": [3, 5]}`` for a list of two. Each refers only to values before it in that
list.

A longer list of numbers of float32 is one text, ``{"": "0.1 -2"}``: nine digits tell these apart,
where a float64 of the same value has seventeen.
``js/wire/columns.ts`` reads the same format.
"""

from __future__ import annotations

import json
import math
import zlib
from array import array
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

_GZIP = 31  # zlib's code for a gzip header and trailer, without a timestamp
_NESTED = {list, dict}
_CHUNK = 2**20
_dumps = json.JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":")).encode
_EXACT = 2**53  # JavaScript's integers are exact below it
_RECORD = 4  # a record takes the memory of this many values
_SHORT = 4  # values of a list that is as long as a reference to it


class TooLargeError(ValueError):
    """The encoded data is larger than the limit."""


def encode(value: Any, shared: str | None = None) -> bytes:
    """Encode plain JSON values; numbers are finite, and no name is empty.

    ``shared``: the field of ``value`` in which what is at several places is written once.
    """
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    columns = _Columns(_repeated_in(value[shared]) if shared is not None else {})
    nested = columns.of(value) if type(value) in _NESTED else value
    if columns.shared:
        nested = {"": columns.shared, **nested}
    return packer.compress(_dumps(nested).encode("ascii")) + packer.flush()


def decode(
    data: bytes | memoryview, most: int | None = None, most_values: int | None = None
) -> Any:
    """Decode what `encode` returned.

    ``most_values``: the most values to accept: an empty list is three bytes of text, but takes
    twenty times as much memory. A record counts as four values.
    """
    unpacker = zlib.decompressobj(_GZIP)
    try:
        text = unpacker.decompress(data, 0 if most is None else most + 1)
    except zlib.error:
        raise ValueError("it is not compressed as such a file is") from None
    if most is not None and len(text) > most:
        raise TooLargeError(f"it holds more than {most // 2**20} MiB of text")
    if not unpacker.eof:
        raise ValueError("it is cut off: its end is missing")
    # A comma or an opening bracket precedes each value but the first; texts may contain more.
    values = text.count(b",") + text.count(b"[") + text.count(b"{")
    rows = _Rows(None if most_values is None else most_values - values)
    try:
        return rows.all_of(json.loads(text, parse_constant=_refuse, parse_float=_finite))
    except TooLargeError:
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its text cannot be read ({str(error)[:80]})") from None


def whole_length(data: bytes | memoryview) -> int:
    """Check and return how many bytes `encode` wrote at the start of some data, keeping nothing."""
    unpacker = zlib.decompressobj(_GZIP)
    waiting: bytes | memoryview = data
    try:
        while waiting and not unpacker.eof:
            unpacker.decompress(waiting, _CHUNK)
            waiting = unpacker.unconsumed_tail
    except zlib.error:
        raise ValueError("its contents do not have their checksum") from None
    if not unpacker.eof:
        raise ValueError("it is cut off: its end is missing")
    return len(data) - len(unpacker.unused_data)


class _Columns:
    """Turns records into columns."""

    def __init__(self, repeated: Mapping[int, int]) -> None:
        """``repeated``: the id of each value that is written once, and of its equals -> its id."""
        self.shared: list[Any] = []  # the values that are written once, in columns
        self._repeated = repeated
        self._places: dict[int, int] = {}

    def of(self, value: Any) -> Any:
        """Return a dict or list with its records as columns at every depth."""
        if id(value) in self._repeated:
            return {"": self._place(value)}
        return self._written(value)

    def _place(self, value: Any) -> int:
        """Return the place of a repeated value in ``shared``, after those within it."""
        key = self._repeated[id(value)]
        if key not in self._places:
            written = self._written(value)
            self._places[key] = len(self.shared)
            self.shared.append(written)
        return self._places[key]

    def _written(self, value: Any) -> Any:
        if type(value) is dict:
            return {
                name: self.of(inner) if type(inner) in _NESTED else inner
                for name, inner in value.items()
            }
        kinds = {*map(type, value)}
        if kinds == {float} and len(value) > _SHORT and array("f", value).tolist() == value:
            return {"": " ".join(map("%.9g".__mod__, value))}
        if not kinds & _NESTED:
            return value
        again = self._repeated.keys() & {*map(id, value)}
        if again and all(id(each) in again for each in value):
            return {"": [*map(self._place, value)]}
        if (
            not again
            and kinds == {dict}
            and len(value) > 1
            and value[0]
            and len({*map(tuple, value)}) == 1
        ):
            return {"": self._table(value)}
        return [self.of(each) if type(each) in _NESTED else each for each in value]

    def _table(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the columns of records with the same fields."""
        start, *others = rows[0]
        first = [row[start] for row in rows]
        is_counted = type(first[0]) is int and first == [*range(first[0], first[0] + len(rows))]
        return {
            start: first[0] if others and is_counted else self._written(first),
            **{name: self._shorter([row[name] for row in rows]) for name in others},
        }

    def _shorter(self, column: list[Any]) -> Any:
        """Return a column, as differences if that is shorter."""
        if {*map(type, column)} != {int} or not -_EXACT < min(column) <= max(column) < _EXACT:
            return self._written(column)
        changes = {"+": [column[0], *(after - before for before, after in pairwise(column))]}
        return min(column, changes, key=lambda each: len(_dumps(each)))


def _repeated_in(value: Any) -> dict[int, int]:
    """Return the ids of the dicts and lists that are at several places in a value.

    Each has its own id, equal lists of floats the one of the first of them. Short lists of plain
    values are left out: a reference is as long.
    """
    seen: set[int] = set()
    found: dict[int, int] = {}
    floats: dict[bytes, int] = {}
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            found.setdefault(id(each), id(each))
            continue
        inner = [*(each.values() if type(each) is dict else each)]
        nested = [one for one in inner if type(one) in _NESTED]
        if nested or len(inner) > _SHORT:
            seen.add(id(each))
        if type(each) is list and len(inner) > _SHORT and {*map(type, inner)} == {float}:
            first = floats.setdefault(array("d", inner).tobytes(), id(each))
            if first != id(each):
                found[id(each)] = found[first] = first
        waiting += nested
    return found


class _Rows:
    """Turns columns into records."""

    def __init__(self, left: int | None) -> None:
        self.left = left  # number of further values to accept; None for any number
        self._shared: list[tuple[Any, int]] = []  # the values written once, and how many each has
        self._size = 0  # values of the shared ones that were read so far
        self._spend(0)

    def all_of(self, value: Any) -> Any:
        """Return the outermost value, with its shared values in their places."""
        if not (isinstance(value, dict) and isinstance(value.get(""), list) and len(value) > 1):
            return self.of(value)
        for each in value.pop(""):
            self._size = _count(each)
            self._shared.append((self.of(each), self._size))
        return self.of(value)

    def _shared_at(self, place: Any) -> Any:
        if type(place) is not int or not 0 <= place < len(self._shared):
            raise ValueError("a reference leads to no value")
        found, size = self._shared[place]
        self._size += size
        self._spend(size)
        return found

    def of(self, value: Any) -> Any:
        """Return a value with records at every depth."""
        if isinstance(value, list):
            return [self.of(each) for each in value] if {*map(type, value)} & _NESTED else value
        if not isinstance(value, dict):
            return value
        if "" not in value:
            return {name: self.of(inner) for name, inner in value.items()}
        table = value[""]
        if type(table) is int:
            return self._shared_at(table)
        if isinstance(table, list):
            return [*map(self._shared_at, table)]
        if isinstance(table, str):
            return self._numbers(table)
        if not isinstance(table, dict) or not table:
            raise ValueError("a table has no columns")
        first, *others = map(self._column, table.values())
        if type(first) is int and others and isinstance(others[0], list):
            first = [*range(first, first + len(others[0]))]
        columns = [first, *others]
        if not all(isinstance(column, list) and len(column) == len(first) for column in columns):
            raise ValueError("the columns of a table are not lists of one length")
        self._spend(len(first) * _RECORD)
        return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]

    def _numbers(self, text: str) -> list[float]:
        """Return the numbers of float32 in a text."""
        self._spend(text.count(" ") + 1)
        numbers = array("f", map(float, text.split(" "))).tolist()
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a number is not finite in float32")
        return numbers

    def _column(self, value: Any) -> Any:
        if not isinstance(value, dict) or "+" not in value:
            return self.of(value)
        changes = value["+"]
        if not isinstance(changes, list) or {*map(type, changes)} != {int}:
            raise ValueError("the differences of a column are not integers")
        return [*accumulate(changes)]

    def _spend(self, values: int) -> None:
        if self.left is not None:
            self.left -= values
            if self.left < 0:
                raise TooLargeError("it holds more values than a graph of its size would")


def _count(value: Any) -> int:
    """Return how many values a value has, as written."""
    count, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, (dict, list)):
            waiting += each.values() if isinstance(each, dict) else each
            if isinstance(each, dict) and isinstance(each.get(""), str):
                count += each[""].count(" ")
    return count


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word[:20]} is too large a number")
    return number
